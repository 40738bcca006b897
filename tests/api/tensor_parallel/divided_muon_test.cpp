// Muon over a tensor axis: the update of the whole matrix, with the bits of one process with as many parts.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include "api/tensor_parallel/parallel_models.h"
#include "support/message_of.h"
#include "support/run_ranks.h"

namespace fsdp::parallel_models {
namespace {

using fsdp::testing::message_of;
using fsdp::testing::run_ranks;
using ::testing::AllOf;
using ::testing::HasSubstr;

struct MuonCase {
  int data, tensor;
  MuonOptions options = {.lr = 2e-2};
  Strategy strategy = Strategy::FullShard;
  bool sequence_parallel = false;
  std::string name = "";
  friend void PrintTo(const MuonCase& one, std::ostream* out) {
    *out << one.data << "x" << one.tensor << "_" << one.name;
  }
};

NamedTensors trained_by_muon(DividedModel& model, ShardedModel& sharded, const MuonCase& one, int first, int stride) {
  sharded.set_gradient_divisor(one.data);
  Muon optimizer(sharded, one.options);
  for (int step = 0; step < 3; ++step) {
    for (int i = first; i < one.data; i += stride) {
      const auto [input, targets] = batch_of(step * one.data + i);
      model.loss(input, targets).backward();
    }
    optimizer.step();
    optimizer.zero_grad();
  }
  return sharded.full_state();
}

class DividedMuon : public ::testing::TestWithParam<MuonCase> {};

// Shared key heads, fused blocks, columns, and an embedding whose parts are uneven.
TEST_P(DividedMuon, HasTheBitsOfOneProcess) {
  const MuonCase& one = GetParam();
  run_ranks(one.data * one.tensor, [&](World& world) {
    const TensorParallelOptions parallel{.parts = 4, .sequence_parallel = one.sequence_parallel};
    World alone = world.split(world.rank());
    torch::manual_seed(7);
    DividedModel whole(alone, parallel);
    ShardedModel expected_model = shard(whole, alone);
    const NamedTensors expected = trained_by_muon(whole, expected_model, one, 0, 1);
    const Mesh mesh(world, {{"data", one.data}, {"tensor", one.tensor}});
    torch::manual_seed(7);
    DividedModel divided(mesh["tensor"], parallel);
    const auto first = weights_of(divided);
    const auto divisions = divisions_of(divided);
    ShardedModel sharded = shard(divided, mesh, "data", {.strategy = one.strategy});
    const NamedTensors found = trained_by_muon(divided, sharded, one, mesh.coordinate("data"), one.data);
    const auto as_map = [](const NamedTensors& tensors) { return Values(tensors.begin(), tensors.end()); };
    expect_parts(as_map(found), as_map(expected), divisions);
    for (const auto& [name, value] : found) EXPECT_FALSE(torch::equal(value, first.at(name))) << name;
  });
}

const MuonOptions kAllMatrices{
    .lr = 2e-2, .scale = MuonScale::Spectral, .dtype = torch::kFloat32, .not_matrices = {"none"}};

INSTANTIATE_TEST_SUITE_P(
    Meshes, DividedMuon,
    ::testing::Values(
        MuonCase{.data = 1, .tensor = 2, .name = "default"}, MuonCase{.data = 1, .tensor = 4, .name = "default"},
        MuonCase{.data = 2, .tensor = 2, .name = "default"},
        MuonCase{.data = 1, .tensor = 4, .options = kAllMatrices, .name = "all"},
        MuonCase{.data = 2, .tensor = 2, .options = kAllMatrices, .sequence_parallel = true, .name = "slices"},
        MuonCase{.data = 3, .tensor = 2, .options = kAllMatrices, .name = "all"},
        MuonCase{.data = 2, .tensor = 4, .options = kAllMatrices, .name = "all"},
        MuonCase{.data = 2, .tensor = 2, .options = kAllMatrices, .strategy = Strategy::NoShard, .name = "replicas"}),
    ::testing::PrintToStringParamName());

TEST(DividedMuon, OtherMatricesOnARankAreAnErrorOnAllRanks) {
  run_ranks(2, [](World& world) {
    const Mesh mesh(world, {{"data", 1}, {"tensor", 2}});
    torch::manual_seed(7);
    DividedModel divided(mesh["tensor"], {.parts = 4});
    ShardedModel sharded = shard(divided, mesh, "data");
    EXPECT_THAT(
        message_of<Error>([&] { Muon muon(sharded, {.not_matrices = {world.rank() == 0 ? "fused.*" : "down.*"}}); }),
        AllOf(HasSubstr("ranks 0 and 1 of a tensor axis have other divided matrices"),
              HasSubstr("the same model, unit policy and MuonOptions")));
  });
}

}  // namespace
}  // namespace fsdp::parallel_models
