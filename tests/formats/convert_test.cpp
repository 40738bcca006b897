// A saved run comes back with the same bits through every format that holds it; what a format does not hold is
// left out and said.
#include "formats/convert.h"

#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <fstream>

#include "checkpoint/safetensors.h"
#include "formats/torch_file_writer.h"
#include "support/message_of.h"
#include "support/models.h"
#include "support/run_ranks.h"
#include "support/scratch_directory.h"

namespace fsdp::formats {
namespace {

namespace fs = std::filesystem;
using fsdp::testing::message_of;
using fsdp::testing::run_ranks;
using fsdp::testing::ScratchDirectory;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing_models::TestModel;

std::unique_ptr<Source> open(const fs::path& path, const std::vector<std::string>& buffers = {}) {
  const auto format = recognise(path);
  EXPECT_TRUE(format) << path;
  return open_source(path, *format, buffers);
}

Converted convert(const fs::path& from, const fs::path& to, Conversion conversion,
                  const std::vector<std::string>& buffers = {}) {
  return formats::convert(*open(from, buffers), to, conversion);
}

std::map<TensorName, torch::Tensor> contents(const fs::path& path, const std::vector<std::string>& buffers = {}) {
  const auto source = open(path, buffers);
  std::map<TensorName, torch::Tensor> tensors;
  for (size_t i = 0; i < source->tensors().size(); ++i) tensors.emplace(source->tensors()[i].name, source->read(i));
  return tensors;
}

// All that `expected` has, and nothing else; or, without states, its parameters and buffers.
void expect_same(const fs::path& found_path, const fs::path& expected_path, bool with_states,
                 const std::vector<std::string>& buffers = {}) {
  auto expected = contents(expected_path);
  if (!with_states) std::erase_if(expected, [](const auto& one) { return one.first.role == Role::State; });
  const auto found = contents(found_path, buffers);
  ASSERT_FALSE(expected.empty());
  EXPECT_EQ(found.size(), expected.size());
  for (const auto& [name, tensor] : expected) {
    const auto one = found.find(name);
    ASSERT_TRUE(one != found.end()) << found_path << " lacks " << name.text();
    EXPECT_EQ(one->second.scalar_type(), tensor.scalar_type()) << name.text();
    EXPECT_TRUE(torch::equal(one->second, tensor)) << found_path << ": " << name.text();
  }
}

// Some steps with AdamW.
void train_and_save(TestModel& model, World& world, const fs::path& path, AdamWOptions options = {}) {
  auto sharded = shard(*model.module, world);
  AdamW optimizer(sharded, options);
  for (int step = 0; step < 2; ++step) {
    model.loss(step * world.size() + world.rank()).backward();
    optimizer.step();
    optimizer.zero_grad();
  }
  save_checkpoint(path, {.model = &sharded, .optimizer = &optimizer, .step = 2, .notes = {{"a", "note"}}});
}

class ConvertTest : public ::testing::Test {
 protected:
  fs::path path(const std::string& name) const { return directory_.path() / name; }
  ScratchDirectory directory_;
};

const std::map<std::string, Format> kWithStates = {
    {"x.pt", Format::TorchFile}, {"x-dcp", Format::Distributed}, {"x-fsdp", Format::Checkpoint}};
const std::map<std::string, Format> kModels = {{"x-hf", Format::HuggingFace}, {"x.archive", Format::Archive}};

TEST_F(ConvertTest, EveryFormatHasTheBitsOfTheCheckpoint) {
  run_ranks(3, [&](World& world) {
    for (const auto& kind : testing_models::model_kinds()) {
      TestModel model = kind.make();
      train_and_save(model, world, path(kind.name + "-saved"));
    }
  });
  for (const auto& kind : testing_models::model_kinds()) {
    const fs::path saved = path(kind.name + "-saved");
    std::vector<std::string> buffers;
    for (const auto& [name, tensor] : contents(saved)) {
      if (name.role == Role::Buffer) buffers.push_back(name.name);
    }
    for (const auto& formats : {kWithStates, kModels}) {
      const bool with_states = formats == kWithStates;
      for (const auto& [name, format] : formats) {
        const fs::path there = path(kind.name + name), back = path(kind.name + name + "-back");
        convert(saved, there, {.to = format});
        expect_same(there, saved, with_states, buffers);
        convert(there, back, {.to = Format::Checkpoint}, buffers);
        expect_same(back, saved, with_states);
        EXPECT_EQ(open(back)->facts().step, with_states ? 2 : 0) << name;
      }
    }
  }
}

TEST_F(ConvertTest, ARunGoesOnFromWhatCameBack) {
  const fs::path saved = path("saved"), file = path("x.pt"), back = path("back");
  run_ranks(2, [&](World& world) {
    TestModel model = testing_models::make_gpt();
    train_and_save(model, world, saved);
  });
  convert(saved, file, {.to = Format::TorchFile});
  convert(file, back, {.to = Format::Checkpoint});
  run_ranks(3, [&](World& world) {
    std::vector<std::vector<torch::Tensor>> results;
    for (const fs::path& from : {saved, back}) {
      TestModel model = testing_models::make_gpt();
      auto sharded = shard(*model.module, world);
      AdamW optimizer(sharded);
      EXPECT_EQ(load_checkpoint(from, {.model = &sharded, .optimizer = &optimizer}), 2);
      model.loss(world.rank()).backward();
      optimizer.step();
      results.push_back(sharded.shards());
      for (torch::Tensor& tensor : results.back()) tensor = tensor.clone();
    }
    for (size_t i = 0; i < results[0].size(); ++i) EXPECT_TRUE(torch::equal(results[0][i], results[1][i]));
  });
}

TEST_F(ConvertTest, ACheckpointOfHalvesIsLoadedWithStrictOff) {
  const fs::path saved = path("saved"), halves = path("halves");
  run_ranks(2, [&](World& world) {
    TestModel model = testing_models::make_gpt();
    train_and_save(model, world, saved);
  });
  convert(saved, halves, {.to = Format::Checkpoint, .dtype = torch::kBFloat16});
  run_ranks(3, [&](World& world) {
    TestModel model = testing_models::make_gpt(), other = testing_models::make_gpt();
    auto expected = shard(*model.module, world), sharded = shard(*other.module, world);
    load_checkpoint(saved, {.model = &expected});
    EXPECT_THAT(message_of<Error>([&] { load_checkpoint(halves, {.model = &sharded}); }),
                AllOf(HasSubstr("is BF16, expected F32"), HasSubstr("with strict off")));
    LoadDifferences found;
    load_checkpoint(halves, {.model = &sharded}, {.strict = false, .differences = &found});
    EXPECT_EQ(found.converted.size(), sharded.parameters().size());
    for (size_t i = 0; i < sharded.parameters().size(); ++i) {
      const torch::Tensor half = expected.shards()[i].to(torch::kBFloat16).to(torch::kFloat);
      EXPECT_TRUE(torch::equal(sharded.shards()[i], half)) << sharded.parameters()[i].name;
    }
  });
}

TEST_F(ConvertTest, StatesOfEightBitsBecomeNumbers) {
  const fs::path plain = path("plain"), packed = path("packed");
  run_ranks(2, [&](World& world) {
    TestModel model = testing_models::make_gpt();
    train_and_save(model, world, plain);
    TestModel other = testing_models::make_gpt();
    train_and_save(other, world, packed, {.state_dtype = StateDtype::Block8});
  });
  const auto expected = contents(plain), found = contents(packed);
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, tensor] : expected) {
    if (name.role != Role::State || tensor.dim() == 0) continue;
    const torch::Tensor& one = found.at(name);
    EXPECT_EQ(one.scalar_type(), torch::kFloat32);
    // A block's largest value times an eighth covers the widest gap of the map.
    EXPECT_LE((one - tensor).abs().max().item<float>(), tensor.abs().max().item<float>() / 8) << name.text();
    EXPECT_GT(one.abs().max().item<float>(), 0) << name.text();
  }
}

TEST_F(ConvertTest, SaysWhatIsLeftOutAndWhatBecomesOther) {
  const fs::path saved = path("saved");
  run_ranks(1, [&](World& world) {
    TestModel model = testing_models::make_gpt();
    train_and_save(model, world, saved);
  });
  EXPECT_THAT(convert(saved, path("hf"), {.to = Format::HuggingFace}).remarks,
              AllOf(Contains(HasSubstr("state are left out: a Hugging Face folder holds a model alone")),
                    Contains(HasSubstr("notes of the training loop are left out"))));
  EXPECT_THAT(convert(saved, path("same"), {.to = Format::Checkpoint}).remarks, IsEmpty());
  EXPECT_EQ(open(path("same"))->facts().notes.at("a"), "note");
  convert(saved, path("half.pt"), {.to = Format::TorchFile, .dtype = torch::kBFloat16});
  for (const auto& [name, tensor] : contents(path("half.pt"))) {
    const bool is_half = name.role != Role::State && tensor.is_floating_point();
    if (is_half) EXPECT_EQ(tensor.scalar_type(), torch::kBFloat16) << name.text();
    if (name.role == Role::State) EXPECT_EQ(tensor.scalar_type(), torch::kFloat32) << name.text();
  }
  EXPECT_THAT(convert(path("half.pt"), path("whole"), {.to = Format::Checkpoint}).remarks,
              Contains(HasSubstr("become fp32")));
  const auto model_alone = convert(saved, path("model.pt"), {.to = Format::TorchFile, .model_only = true});
  EXPECT_EQ(model_alone.tensors, contents(path("model.pt")).size());
  expect_same(path("model.pt"), saved, false);
}

TEST_F(ConvertTest, FilesOfHuggingFacesAreCutAndIndexed) {
  std::vector<std::pair<std::string, torch::Tensor>> tensors;
  for (int i = 0; i < 5; ++i) tensors.emplace_back(fmt::format("layer.{}.w", i), torch::randn({100}));
  tensors.emplace_back("half", torch::randn({300}).to(torch::kFloat16));
  checkpoint::write_safetensors(path("x.safetensors"), tensors, {});
  convert(path("x.safetensors"), path("hf"), {.to = Format::HuggingFace, .folder = {.most_bytes = 1000}});
  std::vector<std::string> found;
  for (const auto& entry : fs::directory_iterator(path("hf"))) found.push_back(entry.path().filename());
  EXPECT_THAT(found, ::testing::UnorderedElementsAreArray(
                         {"model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors",
                          "model-00003-of-00003.safetensors", "model.safetensors.index.json"}));
  expect_same(path("hf"), path("x.safetensors"), true);
}

TEST_F(ConvertTest, MatricesAreTransposedWherePatternsSaySo) {
  const torch::Tensor w = torch::randn({2, 3});
  checkpoint::write_safetensors(path("x.safetensors"), {{"a.c_attn.weight", w}, {"b.weight", w}}, {});
  const auto converted =
      convert(path("x.safetensors"), path("y.pt"), {.to = Format::TorchFile, .transposed = {"*.c_attn.weight"}});
  EXPECT_THAT(converted.remarks, Contains(HasSubstr("1 matrices are transposed")));
  const auto found = contents(path("y.pt"));
  EXPECT_TRUE(torch::equal(found.at({Role::Parameter, "a.c_attn.weight"}), w.t()));
  EXPECT_TRUE(torch::equal(found.at({Role::Parameter, "b.weight"}), w));
}

TEST_F(ConvertTest, WhatLiesAtTheTargetStays) {
  checkpoint::write_safetensors(path("x.safetensors"), {{"w", torch::ones({2})}}, {});
  std::ofstream(path("y.pt")) << "mine";
  fs::create_directories(path("folder/within"));
  std::ofstream(path("hf")) << "a file";
  const auto refusal = [&](const std::string& target, Format format, Existing existing) {
    return message_of<Error>(
        [&] { convert(path("x.safetensors"), path(target), {.to = format, .existing = existing}); });
  };
  EXPECT_THAT(refusal("y.pt", Format::TorchFile, Existing::Refuse), HasSubstr("is there already"));
  for (const Existing existing : {Existing::Refuse, Existing::Replace}) {
    for (const Format format : {Format::Checkpoint, Format::HuggingFace, Format::Distributed}) {
      EXPECT_THAT(refusal("folder", format, existing), HasSubstr("folder"));
      EXPECT_THAT(refusal("hf", format, existing), HasSubstr("hf"));
    }
    EXPECT_THAT(refusal("folder", Format::TorchFile, existing), HasSubstr("expected a file or nothing"));
  }
  EXPECT_TRUE(fs::is_directory(path("folder/within")));
  for (const auto& entry : fs::directory_iterator(directory_.path())) {
    EXPECT_THAT(entry.path().filename().string(), ::testing::Not(HasSubstr("partial")));
  }
  EXPECT_EQ(refusal("y.pt", Format::TorchFile, Existing::Replace), "no error");
  for (const Existing existing : {Existing::Refuse, Existing::Replace}) {
    EXPECT_EQ(refusal("new", Format::Distributed, existing), "no error");
    EXPECT_EQ(refusal("new-hf", Format::HuggingFace, existing), "no error");
  }
}

struct PairImpl : torch::nn::Module {
  PairImpl() {
    first = register_module("first", torch::nn::Linear(3, 4));
    norm = register_module("norm", torch::nn::BatchNorm1d(4));
    scale = register_parameter("scale", torch::randn({4}));
  }
  torch::nn::Linear first{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
  torch::Tensor scale;
};
TORCH_MODULE(Pair);

void expect_equal(const torch::nn::Module& found, const torch::nn::Module& expected) {
  for (const auto& parameter : expected.named_parameters()) {
    EXPECT_TRUE(torch::equal(*found.named_parameters().find(parameter.key()), parameter.value())) << parameter.key();
  }
  for (const auto& buffer : expected.named_buffers()) {
    EXPECT_TRUE(torch::equal(*found.named_buffers().find(buffer.key()), buffer.value())) << buffer.key();
  }
}

TEST_F(ConvertTest, ModulesThatTorchSavesAreReadAndThoseThatItLoadsWritten) {
  Pair saved;
  saved->norm->forward(torch::randn({8, 4}));
  torch::save(saved, path("module.archive").string());
  EXPECT_EQ(open(path("module.archive"))->format(), Format::Archive);
  convert(path("module.archive"), path("hf"), {.to = Format::HuggingFace});
  convert(path("hf"), path("again.archive"), {.to = Format::Archive});
  Pair loaded;
  torch::load(loaded, path("again.archive").string());
  expect_equal(*loaded, *saved);
}

TEST_F(ConvertTest, SharedTensorsStayShared) {
  const fs::path file = path("x.pt");
  {
    files::DurableFile out(file);
    TorchFileWriter writer(
        out, {{.path = {"wte.weight"}, .shape = {2, 3}}, {.path = {"lm_head.weight"}, .shape = {2, 3}, .same_as = 0}},
        {});
    writer.write(torch::ones({2, 3}));
    writer.finish();
    out.close();
  }
  convert(file, path("y.pt"), {.to = Format::TorchFile});
  EXPECT_EQ(open(path("y.pt"))->tensors()[1].same_as, 0u);
  const auto tied = convert(file, path("ours"), {.to = Format::Checkpoint});
  EXPECT_THAT(tied.remarks, Contains("lm_head.weight is tied to wte.weight, and left out."));
  EXPECT_EQ(contents(path("ours")).size(), 1u);
  convert(file, path("hf"), {.to = Format::HuggingFace});
  EXPECT_EQ(contents(path("hf")).size(), 2u);
}

}  // namespace
}  // namespace fsdp::formats
