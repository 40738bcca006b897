// Ranks that hold boxes of a matrix, as they do with tensor parallelism: saved and loaded in any divisions.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <filesystem>

#include "checkpoint/loaded_values.h"
#include "checkpoint/manifest.h"
#include "checkpoint/write_checkpoint.h"
#include "formats/source.h"
#include "support/run_ranks.h"
#include "support/scratch_directory.h"

namespace fsdp {
namespace {

namespace fs = std::filesystem;
using fsdp::testing::run_ranks;
using fsdp::testing::ScratchDirectory;
using layout::Placement;

constexpr int64_t kBoxRows = 40, kBoxColumns = 96;
const std::vector<int64_t> kBoxShape = {kBoxRows, kBoxColumns};
const std::vector<std::string> kBoxKinds = {"model", "optimizer.exp_avg", "optimizer.exp_avg_sq"};

// The whole values of a kind.
torch::Tensor matrix_of(const std::string& kind) {
  return torch::arange(kBoxRows * kBoxColumns, torch::kFloat).view(kBoxShape) +
         10'000.0 * static_cast<double>(kind.size());
}
torch::Tensor bias_of(const std::string& kind) { return matrix_of(kind).flatten().slice(0, 0, kBoxRows) / 2; }

// The values of a placement, one by one in its order.
torch::Tensor part_of(const torch::Tensor& whole, const Placement& placement) {
  const torch::Tensor box = whole.slice(0, placement.box[0].begin, placement.box[0].end)
                                .slice(1, placement.box[1].begin, placement.box[1].end);
  return box.flatten().slice(0, placement.range.begin, placement.range.end).clone();
}

Placement columns(int64_t begin, int64_t end, double from = 0, double to = 1) {
  Placement placement = layout::all_of_box(kBoxShape, {{0, kBoxRows}, {begin, end}});
  const auto numel = static_cast<double>(placement.numel());
  placement.range = {static_cast<int64_t>(numel * from), static_cast<int64_t>(numel * to)};
  return placement;
}

// Rank 1 of 5 writes no file. The others hold halves of two boxes of columns; rank 0 the bias, too.
checkpoint::Snapshot snapshot_of(int rank) {
  const std::vector<Placement> placements = {
      columns(0, 48, 0, 0.53), {}, columns(0, 48, 0.53, 1), columns(48, 96, 0, 0.4), columns(48, 96, 0.4, 1)};
  checkpoint::Snapshot snapshot;
  snapshot.has_file = rank != 1;
  if (!snapshot.has_file) return snapshot;
  const auto add = [&](const std::string& name, const Placement& placement, const auto& values_of) {
    auto& parameter = snapshot.manifest.parameters.emplace_back();
    parameter.name = name, parameter.shape = placement.shape;
    parameter.strides = placement.shape.size() == 1 ? std::vector<int64_t>{1} : std::vector<int64_t>{kBoxColumns, 1};
    parameter.scalars["optimizer.step"] = rank == 0 ? 4 : 0;
    parameter.parts.push_back({.placement = placement});
    for (const std::string& kind : kBoxKinds) {
      parameter.tensors[kind] = "F32";
      snapshot.tensors.emplace_back(kind + "." + name, values_of(kind));
    }
  };
  const Placement& own = placements[static_cast<size_t>(rank)];
  add("weight", own, [&](const std::string& kind) { return part_of(matrix_of(kind), own); });
  if (rank == 0) add("bias", layout::part_of_whole({kBoxRows}, {0, kBoxRows}), bias_of);
  snapshot.manifest.step = 9;
  return snapshot;
}

void save(const fs::path& directory) {
  run_ranks(5, [&](World& world) {
    torch::nn::Linear any(1, 1);
    auto sharded = shard(*any, world);  // for its group
    checkpoint::write_checkpoint(sharded.model().group(), {.directory = directory, .what = "save_checkpoint boxes"},
                                 [&] { return snapshot_of(world.rank()); });
  });
}

TEST(Boxes, OfEveryRankAreSavedInFilesOfTheirRanksAndLoadedWhole) {
  const ScratchDirectory scratch;
  const fs::path directory = scratch.path() / "step-9";
  save(directory);
  for (int rank = 0; rank < 5; ++rank) {
    EXPECT_EQ(fs::exists(directory / checkpoint::shard_file_name(rank, 5)), rank != 1) << rank;
  }
  EXPECT_EQ(latest_checkpoint(scratch.path()), directory);
  for (int ranks : {1, 2, 3}) {
    run_ranks(ranks, [&](World& world) {
      torch::nn::Linear model(kBoxColumns, kBoxRows);
      auto sharded = shard(*model, world);
      AdamW optimizer(sharded);
      EXPECT_EQ(load_checkpoint(directory, {.model = &sharded, .optimizer = &optimizer}), 9);
      const Optimizer::State state = optimizer.state();
      for (size_t i = 0; i < 2; ++i) {
        const auto& parameter = sharded.parameters()[i];
        const auto expect = [&](const torch::Tensor& piece, const std::string& kind) {
          const torch::Tensor whole = parameter.name == "bias" ? bias_of(kind) : matrix_of(kind).flatten();
          EXPECT_TRUE(torch::equal(piece, whole.slice(0, parameter.offset, parameter.offset + piece.numel()))) << kind;
        };
        expect(parameter.piece.clone(), "model");
        for (const auto& one : state.elements) expect(one.tensors[i], "optimizer." + one.name);
        EXPECT_EQ(state.scalars[0].tensors[i].item<double>(), 4);
      }
    });
  }
}

TEST(Boxes, AreLoadedIntoOtherBoxes) {
  const ScratchDirectory scratch;
  const fs::path directory = scratch.path() / "step-9";
  save(directory);
  const checkpoint::Manifest saved = checkpoint::read_manifest(directory);
  std::vector<Placement> wanted = {columns(0, 96),
                                   columns(0, 48),
                                   columns(30, 70),
                                   columns(30, 70, 0.1, 0.9),
                                   columns(95, 96),
                                   layout::all_of_box(kBoxShape, {{7, 33}, {40, 50}}),
                                   layout::all_of_box(kBoxShape, {{7, 9}, {0, 96}})};
  for (const Placement& placement : wanted) {
    for (const bool is_blank : {true, false}) {
      checkpoint::LoadedValues values(directory, saved);
      const torch::Tensor fp32 = torch::zeros({placement.numel()});
      const torch::Tensor bf16 = torch::zeros({placement.numel()}, torch::kBFloat16);  // converted
      values.add({.kind = "model", .parameter = 0, .tensor = fp32}, "weight", placement, true, is_blank);
      values.add({.kind = "optimizer.exp_avg", .parameter = 0, .tensor = bf16}, "weight", placement, true, false);
      values.read();
      values.write();
      EXPECT_TRUE(torch::equal(fp32, part_of(matrix_of("model"), placement)));
      EXPECT_TRUE(torch::equal(bf16, part_of(matrix_of("optimizer.exp_avg"), placement).to(torch::kBFloat16)));
    }
  }
}

// Rows that a vocabulary has grown by keep their values, in whatever columns a rank holds.
TEST(Boxes, OfAMatrixThatHasGrownLoadTheirFirstRows) {
  const ScratchDirectory scratch;
  const fs::path directory = scratch.path() / "step-9";
  save(directory);
  const checkpoint::Manifest saved = checkpoint::read_manifest(directory);
  const Placement grown = layout::all_of_box({kBoxRows + 5, kBoxColumns}, {{30, kBoxRows + 5}, {10, 60}});
  const torch::Tensor target = torch::full({35, 50}, -1.0);
  checkpoint::LoadedValues values(directory, saved);
  values.add({.kind = "model", .parameter = 0, .tensor = target.view({-1})}, "weight", grown, true, false);
  values.read();
  values.write();
  EXPECT_TRUE(torch::equal(target.slice(0, 0, 10), matrix_of("model").slice(0, 30, kBoxRows).slice(1, 10, 60)));
  EXPECT_TRUE(torch::all(target.slice(0, 10) == -1).item<bool>());
}

TEST(Boxes, AreJoinedForOtherFormats) {
  const ScratchDirectory scratch;
  const fs::path directory = scratch.path() / "step-9";
  save(directory);
  const auto source = formats::open_checkpoint(directory);
  size_t matrices = 0;
  for (size_t i = 0; i < source->tensors().size(); ++i) {
    if (source->tensors()[i].shape != kBoxShape) continue;
    const std::string text = source->tensors()[i].name.text();
    const std::string kind = text.find("exp_avg_sq") != std::string::npos ? kBoxKinds[2]
                             : text.find("exp_avg") != std::string::npos  ? kBoxKinds[1]
                                                                          : kBoxKinds[0];
    EXPECT_TRUE(torch::equal(source->read(i), matrix_of(kind))) << text;
    ++matrices;
  }
  EXPECT_EQ(matrices, 3);
}

}  // namespace
}  // namespace fsdp
