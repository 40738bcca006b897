// Muon over a tensor axis: the update of the whole matrix, with the bits of one process with as many parts.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include "api/tensor_parallel/parallel_models.h"
#include "support/drawn.h"
#include "support/message_of.h"
#include "support/run_ranks.h"

namespace fsdp::parallel_models {
namespace {

using fsdp::testing::drawn;
using fsdp::testing::message_of;
using fsdp::testing::run_ranks;
using fsdp::testing::run_ranks_to_end;
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
    drawn<MuonCase>(
        {{.data = 2, .tensor = 2, .name = "default"},
         {.data = 2, .tensor = 2, .options = kAllMatrices, .sequence_parallel = true, .name = "slices"}},
        {{.data = 1, .tensor = 2, .name = "default"},
         {.data = 1, .tensor = 4, .name = "default"},
         {.data = 1, .tensor = 4, .options = kAllMatrices, .name = "all"},
         {.data = 3, .tensor = 2, .options = kAllMatrices, .name = "all"},
         {.data = 2, .tensor = 4, .options = kAllMatrices, .name = "all"},
         {.data = 2, .tensor = 2, .options = kAllMatrices, .strategy = Strategy::NoShard, .name = "replicas"}}),
    ::testing::PrintToStringParamName());

// Layers of one model that are divided over different axes. Each pair is whole along the other's axis.
struct TwoAxesModel : nn::Module {
  TwoAxesModel(const World& first, const World& second, const TensorParallelOptions& parallel = {.parts = 2})
      : up(nn::LinearOptions(8, 32), first, parallel),
        down(nn::LinearOptions(32, 8), first, parallel),
        other_up(nn::LinearOptions(8, 32), second, parallel),
        other_down(nn::LinearOptions(32, 8), second, parallel),
        whole(nn::LinearOptions(8, 4)) {
    register_module("up", up), register_module("down", down), register_module("whole", whole);
    register_module("other_up", other_up), register_module("other_down", other_down);
  }
  Tensor loss(const Tensor& x) { return whole(other_down(other_up(down(up(x)).relu()))).square().sum(); }
  ColumnParallelLinear up;
  RowParallelLinear down;
  ColumnParallelLinear other_up;
  RowParallelLinear other_down;
  nn::Linear whole;
};

TEST(DividedMuon, OverTwoAxesHasTheBitsOfOneProcess) {
  run_ranks(4, [](World& world) {
    World alone = world.split(world.rank());
    const Mesh mesh(world, {{"rows", 2}, {"columns", 2}});
    const auto trained = [&](const World& first, const World& second) {
      torch::manual_seed(7);
      TwoAxesModel model(first, second);
      ShardedModel sharded = shard(model, alone);
      Muon optimizer(sharded, {.lr = 1e-2});
      for (int step = 0; step < 2; ++step) {
        model.loss(torch::linspace(-1, 1, 24).view({3, 8}) * (step + 1)).backward();
        optimizer.step();
        optimizer.zero_grad();
      }
      const NamedTensors state = sharded.full_state();
      return std::pair(Values(state.begin(), state.end()), divisions_of(model));
    };
    const auto [found, divisions] = trained(mesh["rows"], mesh["columns"]);
    expect_parts(found, trained(alone, alone).first, divisions);
  });
}

// A rank that is gone, or that calls another collective of the axis, is named by the ranks that wait in the step.
TEST(DividedMuon, ARankThatIsNotInTheStepIsNamed) {
  for (const bool is_gone : {true, false}) {
    const auto result = run_ranks_to_end(
        2,
        [is_gone](World& world) {
          const Mesh mesh(world, {{"data", 1}, {"tensor", 2}});
          World tensor = mesh["tensor"];
          torch::manual_seed(7);
          DividedModel divided(tensor, {.parts = 4});
          ShardedModel sharded = shard(divided, mesh, "data");
          Muon optimizer(sharded);
          const auto [input, targets] = batch_of(1);
          divided.loss(input, targets).backward();
          if (world.rank() == 0) return optimizer.step();
          if (is_gone) throw std::runtime_error("no step today");
          tensor.barrier();
        },
        fsdp::testing::patient_options());
    EXPECT_NE(result.exit_code, 0);
    EXPECT_THAT(result.output, AllOf(HasSubstr("rank 1"), HasSubstr(is_gone ? "no step today" : "barrier")));
  }
}

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

// Its two ranks have rows 0 to 4 of 6.
struct IncompleteLayer : nn::Module, DividedModule {
  explicit IncompleteLayer(World axis_) : own_axis(std::move(axis_)) {
    weight = register_parameter("weight", torch::ones({2, 4}));
  }
  std::vector<ParameterDivision> divisions() const override {
    const int64_t first = own_axis.rank() * int64_t{2};
    return {{.parameter = "weight", .shape = {6, 4}, .dim = 0, .ranges = {{first, first + 2}}}};
  }
  const World& axis() const override { return own_axis; }
  World own_axis;
  Tensor weight;
};

TEST(DividedMuon, AMatrixThatIsNotCompleteIsAnError) {
  run_ranks(2, [](World& world) {
    World alone = world.split(world.rank());
    IncompleteLayer layer(world);
    ShardedModel sharded = shard(layer, alone);
    EXPECT_THAT(message_of<Error>([&] { Muon muon(sharded); }),
                AllOf(HasSubstr("hold weight from 0 to 4 of dimension 0 of shape [6, 4], expected all 6 together"),
                      HasSubstr("Correct divisions()")));
  });
}

}  // namespace
}  // namespace fsdp::parallel_models
