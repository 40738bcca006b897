// Checkpoints that the last program of version 3 wrote, which any number of ranks loads to the same bits.
#include <gmock/gmock.h>

#include <filesystem>

#include "checkpoint/manifest.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/version3_training.h"
#include "support/run_ranks.h"
#include "support/scratch_directory.h"

namespace fsdp {
namespace {

namespace fs = std::filesystem;
using fsdp::testing::kVersion3Kinds;
using fsdp::testing::run_ranks;
using fsdp::testing::ScratchDirectory;
using fsdp::testing::Version3Kind;
using fsdp::testing::Version3Training;

const fs::path kKept = fs::path(FSDP_DOCS).parent_path() / "tests/checkpoint/version3";

// The part of the whole tensor that a rank's piece is; a tensor of scales has one element for 64 of the parameter.
void expect_part(const std::string& name, const torch::Tensor& piece, const torch::Tensor& whole, int64_t offset) {
  if (piece.numel() == 0) return;
  EXPECT_TRUE(torch::equal(piece, whole.slice(0, offset, offset + piece.numel()))) << name;
}

void expect_loaded(Version3Training& training, const std::map<std::string, torch::Tensor>& expected) {
  const auto& parameters = training.sharded.parameters();
  for (const auto& one : parameters) {
    expect_part(one.name, one.piece.clone(), expected.at("model." + one.name), one.offset);
  }
  const Optimizer::State state = training.optimizer.state();
  for (const auto& one : state.elements) {
    const int64_t numel_each = one.name.ends_with("_scale") ? 64 : 1;
    for (size_t i = 0; i < parameters.size(); ++i) {
      const std::string name = "optimizer." + one.name + "." + parameters[i].name;
      expect_part(name, one.tensors[i], expected.at(name), parameters[i].offset / numel_each);
    }
  }
  for (const auto& one : state.scalars) {
    for (const torch::Tensor& number : one.tensors) EXPECT_EQ(number.item<double>(), 3) << one.name;
  }
  for (const auto& [name, buffer] : training.model->named_buffers().pairs()) {
    EXPECT_TRUE(torch::equal(buffer.clone(), expected.at("buffer." + name))) << name;
  }
}

class Version3 : public ::testing::TestWithParam<Version3Kind> {};

TEST_P(Version3, IsLoadedByAnyNumberOfRanksToTheSameBits) {
  const Version3Kind& kind = GetParam();
  const fs::path folder = kKept / kind.name;
  EXPECT_EQ(checkpoint::read_manifest(folder / "step-3").version, 3);
  for (int ranks : {1, 2, 3}) {
    run_ranks(ranks, [&](World& world) {
      Version3Training training(world, kind, {});
      EXPECT_EQ(load_checkpoint(folder / "step-3", training.checkpoint()), 3);
      EXPECT_EQ(checkpoint_notes(folder / "step-3").at("data position"), "epoch 1, sample 12");
      expect_loaded(training, checkpoint::read_safetensors(folder / "expected.safetensors"));
    });
  }
}

TEST_P(Version3, IsSavedAgainAsOneOfToday) {
  const Version3Kind& kind = GetParam();
  const fs::path folder = kKept / kind.name;
  const ScratchDirectory scratch;
  run_ranks(2, [&](World& world) {
    const auto expected = checkpoint::read_safetensors(folder / "expected.safetensors");
    Version3Training training(world, kind, {}), again(world, kind, {.shard_group_size = 1});
    load_checkpoint(folder / "step-3", training.checkpoint());
    save_checkpoint(scratch.path() / "today", training.checkpoint());
    EXPECT_EQ(checkpoint::read_manifest(scratch.path() / "today").version, 4);
    load_checkpoint(scratch.path() / "today", again.checkpoint());
    expect_loaded(again, expected);
  });
}

INSTANTIATE_TEST_SUITE_P(Kinds, Version3, ::testing::ValuesIn(kVersion3Kinds), [](const auto& kind) {
  std::string name = kind.param.name;
  std::erase(name, '-');
  return name;
});

// Each of the two ranks goes on with the numbers of its own generator.
TEST(Version3Generators, GoOnWhereTheyStood) {
  const Version3Kind& kind = kVersion3Kinds[0];
  run_ranks(kind.ranks, [&](World& world) {
    Version3Training training(world, kind, {}), fresh(world, kind, {});
    fresh.draw();
    const int64_t expected = fresh.draw();
    Checkpoint checkpoint = training.checkpoint();
    checkpoint.generators = {{"noise", training.generator}};
    load_checkpoint(kKept / kind.name / "step-3", checkpoint);
    EXPECT_EQ(training.draw(), expected);
  });
}

}  // namespace
}  // namespace fsdp
