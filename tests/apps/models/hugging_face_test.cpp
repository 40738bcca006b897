// Agreement with Hugging Face's transformers: equal numbers from the same files, and files that it can read.
//
// make_models.py makes models of both families with large random weights in every parameter, and says what transformers
// computes with them in fp32: logits, loss and gradients. Here they are loaded into sharded models, whose numbers are
// compared to 1e-5, relative and absolute: the same sums, in another order. Then they are saved for the script to read.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>
#include <sys/wait.h>

#include <cstdlib>
#include <fstream>
#include <set>

#include "checkpoint/safetensors.h"
#include "models/gpt2.h"
#include "models/hugging_face_config.h"
#include "models/hugging_face_weights.h"
#include "models/llama.h"
#include "support/required.h"
#include "support/run_ranks.h"
#include "support/scratch_directory.h"

namespace models {
namespace {

using ::testing::IsEmpty;
namespace fs = std::filesystem;

constexpr double kTolerance = 1e-5;
constexpr int kSkipped = 77;  // of the script, where Python has no transformers

using Tensors = std::map<std::string, torch::Tensor>;

int run_script(const std::string& task, const fs::path& folder) {
  const std::string command = fmt::format("'{}' '{}' {} '{}'", FSDP_PYTHON, FSDP_MODELS_SCRIPT, task, folder.string());
  const int status = std::system(command.c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void expect_close(const torch::Tensor& found, const torch::Tensor& expected, const std::string& what) {
  ASSERT_EQ(found.sizes(), expected.sizes()) << what;
  EXPECT_TRUE(torch::allclose(found, expected, kTolerance, kTolerance))
      << what << " differ by " << (found - expected).abs().max().item<double>();
}

// The part of a gradient of the file that this rank holds of the parameter's.
torch::Tensor part_of(const torch::Tensor& gradient, const fsdp::ShardedParameter& parameter) {
  return gradient.flatten().slice(0, parameter.offset, parameter.offset + parameter.piece.numel());
}

bool is_transposed(const std::string& name) {
  return name.find(".c_") != std::string::npos && name.ends_with("weight");
}

void compare(const fs::path& folder, fsdp::World& world) {
  const ConfigFile file = read_hugging_face_config(folder);
  ASSERT_THAT(file.problems, IsEmpty());
  torch::manual_seed(static_cast<uint64_t>(world.rank()));
  const auto model = make_model(file.config);
  auto sharded = fsdp::shard(*model, world, {.units = fsdp::units_of<Gpt2BlockImpl, LlamaBlockImpl>()});
  fsdp::load_pretrained(folder, sharded, pretrained_options(file.config));

  const Tensors expected = fsdp::checkpoint::read_safetensors(folder / "expected.safetensors");
  const auto &tokens = expected.at("tokens"), &targets = expected.at("targets");
  expect_close(model->forward(tokens).detach(), expected.at("logits"), "logits");
  const auto loss = model->loss(tokens, targets);
  expect_close(loss.detach(), expected.at("loss"), "losses");
  // Every rank has the same tokens, so the mean over ranks is one rank's gradient.
  loss.backward();
  sharded.clip_grad_norm_(1e30);
  EXPECT_EQ(sharded.parameters().size() + 4, expected.size());
  for (const auto& parameter : sharded.parameters()) {
    if (parameter.piece.numel() == 0) continue;
    torch::Tensor gradient = expected.at("gradient." + parameter.name);
    if (is_transposed(parameter.name)) gradient = gradient.t();
    expect_close(parameter.piece.grad().clone(), part_of(gradient, parameter), "gradients of " + parameter.name);
  }

  fsdp::save_pretrained(folder / "saved", sharded, pretrained_options(file.config));
  if (world.rank() == 0) std::ofstream(folder / "saved" / "config.json") << hugging_face_config(file.config);
}

TEST(HuggingFace, ForwardBackwardAndFilesAreThoseOfTransformers) {
  if (!fs::exists(FSDP_PYTHON)) FSDP_SKIP_TEST("there is no Python");
  const fsdp::testing::ScratchDirectory scratch;
  const fs::path models = scratch.path() / "models";
  if (!fs::exists(models / "made")) {
    fs::create_directories(models);
    const int result = run_script("make", models);
    if (result == kSkipped) FSDP_SKIP_TEST("Python has no transformers");
    ASSERT_EQ(result, 0);
  }
  fsdp::testing::run_ranks(2, [&](fsdp::World& world) {
    std::set<fs::path> folders;  // in one order on every rank
    for (const auto& each : fs::directory_iterator(models)) {
      if (each.is_directory()) folders.insert(each.path());
    }
    EXPECT_EQ(folders.size(), 17u);
    for (const fs::path& folder : folders) {
      SCOPED_TRACE(folder.filename().string());
      compare(folder, world);
    }
  });
  EXPECT_EQ(run_script("check", models), 0);
}

}  // namespace
}  // namespace models
