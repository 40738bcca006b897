// Tests that need a GPU; skipped where there is none. tests/device/ runs them on a device of its own. The models have
// no kernels that add with atomics, as the backward of an embedding does: one process would not equal itself.
#include <c10/util/signal_handler.h>
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>
#include <torch/cuda.h>

#include <cstdlib>
#include <limits>
#include <stdexcept>

#include "collectives/backends.h"
#include "support/message_of.h"
#include "support/run_ranks.h"
#include "support/scratch_directory.h"

namespace fsdp {
namespace {

using ::testing::HasSubstr;
using testing::run_rank_processes;

constexpr int kSteps = 5, kMicroBatches = 2;

// Ranks are forked from a process that runs the test once more, and that must not have asked CUDA anything: it was
// started because there are enough GPUs.
int gpus_for_the_test() {
  const bool starts_ranks = std::getenv("FSDP_TEST_CALL") != nullptr;
  return starts_ranks ? std::numeric_limits<int>::max() : static_cast<int>(torch::cuda::device_count());
}

struct Cuda : ::testing::Test {
  void SetUp() override {
    c10::FatalSignalHandler::getInstance().setPrintStackTracesOnFatalSignal(true);  // a GPU is seldom near a debugger
    if (gpus_for_the_test() == 0) GTEST_SKIP() << "found no GPU that CUDA can use";
  }
};

// Ranks that see the first GPU alone.
testing::RunResult run_on_one_gpu(int ranks, const std::function<void(World&)>& body, const std::string& backend) {
  LaunchOptions options = testing::test_options();
  options.ranks = ranks;
  options.backend = backend;
  const auto checked = [&](World& world) {
    body(world);
    if (::testing::Test::HasFailure()) throw std::runtime_error("an assertion of the test failed in this rank");
  };
  return testing::run_process([&] { return launch(options, checked); }, {"CUDA_VISIBLE_DEVICES=0"});
}

struct BlockImpl : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& x) { return x + down(torch::gelu(up(norm(x)))); }

  torch::nn::LayerNorm norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({96})));
  torch::nn::Linear up = register_module("up", torch::nn::Linear(96, 160));
  torch::nn::Linear down = register_module("down", torch::nn::Linear(160, 96));
};
TORCH_MODULE(Block);

torch::nn::Sequential make_model(const torch::Device& device) {
  torch::manual_seed(1);
  torch::nn::Sequential model{Block(), Block(), Block(), Block()};
  model->to(device);
  return model;
}

torch::Tensor loss_of(torch::nn::Sequential& model, const torch::Device& device, int step, int micro_batch) {
  auto random = at::detail::createCPUGenerator(static_cast<uint64_t>(step * kMicroBatches + micro_batch));
  const torch::Tensor input = torch::randn({32, 96}, random).to(device);
  return (model->forward(input) - input.roll(1, 1)).square().mean();
}

const torch::optim::AdamWOptions kAdamW = torch::optim::AdamWOptions(1e-2).weight_decay(1e-2);

std::vector<torch::Tensor> plain_weights(const torch::Device& device) {
  auto model = make_model(device);
  torch::optim::AdamW optimizer(model->parameters(), kAdamW);
  for (int step = 0; step < kSteps; ++step) {
    for (int b = 0; b < kMicroBatches; ++b) loss_of(model, device, step, b).backward();
    for (auto& parameter : model->parameters()) parameter.mutable_grad().mul_(1.0f / kMicroBatches);
    optimizer.step();
    optimizer.zero_grad();
  }
  return model->parameters();
}

NamedTensors sharded_weights(World& world) {
  auto model = make_model(world.device());
  auto sharded = shard(*model, world);
  torch::optim::AdamW optimizer(sharded.shards(), kAdamW);
  sharded.set_gradient_divisor(kMicroBatches);
  for (int step = 0; step < kSteps; ++step) {
    for (int b = world.rank(); b < kMicroBatches; b += world.size()) loss_of(model, world.device(), step, b).backward();
    optimizer.step();
    sharded.zero_grad();
  }
  return sharded.full_state();
}

void expect_plain_bits(World& world) {
  EXPECT_TRUE(world.device().is_cuda());
  const NamedTensors found = sharded_weights(world);
  const std::vector<torch::Tensor> expected = plain_weights(world.device());
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(found[i].second.equal(expected[i].cpu())) << found[i].first;
}

TEST_F(Cuda, OneRankHasTheBitsOfPlainLibTorch) { run_rank_processes(1, expect_plain_bits); }

// Through the host's memory: NCCL takes no two ranks of one host on one GPU.
TEST_F(Cuda, TwoRanksOnOneGpuHaveTheBitsOfPlainLibTorch) {
  const auto result = run_on_one_gpu(2, expect_plain_bits, "auto");
  EXPECT_EQ(result.exit_code, 0) << result.output;
}

TEST_F(Cuda, NcclRefusesToShareAGpu) {
  if (!collectives::has_nccl()) GTEST_SKIP() << "this build has no NCCL";
  const auto result = run_on_one_gpu(
      2, [](World&) {}, "nccl");
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.output, HasSubstr("share a GPU"));
}

// Two ranks as a launcher starts them. NCCL takes them for ranks of two hosts, which talk over loopback. A sum of two
// has one order, NCCL's too.
TEST_F(Cuda, TwoNcclRanksOnOneGpuHaveTheBitsOfPlainLibTorch) {
  LaunchOptions options = testing::test_options();
  options.backend = "nccl";
  testing::run_on_hosts({.hosts = 1, .ranks = 2}, expect_plain_bits, options, [](int rank) {
    return std::vector<std::string>{"CUDA_VISIBLE_DEVICES=0", "NCCL_HOSTID=" + std::to_string(rank),
                                    "NCCL_SOCKET_IFNAME=lo", "NCCL_IB_DISABLE=1"};
  });
}

// A sum of two has one order, NCCL's too.
TEST_F(Cuda, TwoRanksWithAGpuEachHaveTheBitsOfPlainLibTorch) {
  if (gpus_for_the_test() < 2) GTEST_SKIP() << "found one GPU, expected two or more";
  LaunchOptions options = testing::test_options();
  options.backend = "nccl";
  run_rank_processes(2, expect_plain_bits, options);
}

void step_scaled(World& world, ShardedModel& sharded, AdamW& optimizer, torch::nn::Sequential& model) {
  GradScaler scaler;
  scaler.scale(loss_of(model, world.device(), 0, 0)).backward();
  scaler.unscale_(sharded);
  EXPECT_GT(sharded.clip_grad_norm_(1.0), 0);
  EXPECT_TRUE(scaler.step(optimizer));
  scaler.update();
  optimizer.zero_grad();
}

TEST_F(Cuda, ScalesClipsAndSteps) {
  run_rank_processes(1, [](World& world) {
    auto model = make_model(world.device());
    auto sharded = shard(*model, world);
    AdamW optimizer(sharded);
    step_scaled(world, sharded, optimizer, model);
    EXPECT_GT(sharded.memory().total_bytes(), 0);
  });
}

TEST_F(Cuda, SavesAndLoadsWhatItHasStepped) {
  run_rank_processes(1, [](World& world) {
    auto model = make_model(world.device());
    auto sharded = shard(*model, world);
    AdamW optimizer(sharded);
    step_scaled(world, sharded, optimizer, model);
    const testing::ScratchDirectory scratch;
    const Checkpoint checkpoint{.model = &sharded, .optimizer = &optimizer, .step = 1};
    save_checkpoint(scratch.path() / "step-1", checkpoint);
    const NamedTensors saved = sharded.full_state();
    step_scaled(world, sharded, optimizer, model);
    EXPECT_EQ(load_checkpoint(scratch.path() / "step-1", checkpoint), 1);
    const NamedTensors loaded = sharded.full_state();
    for (size_t i = 0; i < saved.size(); ++i) EXPECT_TRUE(loaded[i].second.equal(saved[i].second)) << saved[i].first;
  });
}

TEST_F(Cuda, AParameterElsewhereIsAnError) {
  run_rank_processes(1, [](World& world) {
    torch::nn::Linear linear(4, 4);
    const std::string message = testing::message_of([&] { shard(*linear, world); });
    EXPECT_THAT(message, HasSubstr("is Float on cpu, expected float32, bfloat16 or float16 on cuda:0"));
  });
}

}  // namespace
}  // namespace fsdp
