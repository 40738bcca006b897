// A rank of a 2 x 2 x 2 mesh is killed or stopped in a pipeline's step. All other ranks end, and name the rank by its
// place, the stage and the micro-batch.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>
#include <signal.h>

#include <chrono>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "support/drawn.h"
#include "support/message_of.h"
#include "support/run_ranks.h"

namespace fsdp {
namespace {

using fsdp::testing::run_ranks_to_end;
using fsdp::testing::RunResult;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

struct LostRank {
  const char* backend;
  int rank;

  // As its messages name it, in a regular expression.
  std::string name() const {
    return fmt::format("rank {} \\(data {}, pipeline {}, tensor {}\\)", rank, rank / 4, rank / 2 % 2, rank % 2);
  }
  friend void PrintTo(const LostRank& lost, std::ostream* out) { *out << lost.backend << "_rank" << lost.rank; }
};

struct LostLayerImpl : torch::nn::Module {
  explicit LostLayerImpl(const World& tensor)
      : up(register_module("up", ColumnParallelLinear(torch::nn::LinearOptions(8, 32), tensor))),
        down(register_module("down", RowParallelLinear(torch::nn::LinearOptions(32, 8), tensor))) {}
  torch::Tensor forward(const torch::Tensor& x) { return x + down(torch::gelu(up(x))); }

  ColumnParallelLinear up;
  RowParallelLinear down;
};

// Four blocks. `before` is called before each forward.
std::vector<PipelineBlock> layers_with(const World& tensor, const std::function<void()>& before) {
  std::vector<PipelineBlock> blocks;
  for (const char* name : {"a", "b", "c", "d"}) {
    blocks.push_back(pipeline_block<LostLayerImpl>(name, tensor));
    blocks.back().forward = [inner = blocks.back().forward, before](torch::nn::Module& module, const Tensors& inputs) {
      before();
      return inner(module, inputs);
    };
  }
  return blocks;
}

// A rank sends itself the signal in the forward of its second micro-batch.
RunResult run_and_lose(const LostRank& lost, int signal, std::chrono::milliseconds timeout) {
  LaunchOptions options = testing::patient_options();
  options.timeout = timeout;
  options.backend = lost.backend;
  return run_ranks_to_end(
      8,
      [&](World& world) {
        const Mesh mesh(world, {{"data", 2}, {"pipeline", 2}, {"tensor", 2}});
        torch::manual_seed(1);
        int forwards = 0;  // of two blocks for each micro-batch
        const auto before = [&] {
          if (world.rank() == lost.rank && ++forwards == 3) raise(signal);
        };
        Pipeline pipeline(layers_with(mesh["tensor"], before), mesh["pipeline"]);
        ShardedModel sharded = shard(pipeline.stage(), mesh, "data");
        const Tensors batches(4, torch::ones({2, 8}));
        pipeline.step(batches, batches, [](const torch::Tensor& output, const torch::Tensor& target) {
          return (output - target).square().mean();
        });
      },
      options);
}

TEST(MeshErrors, NameShardedStagesWithoutParameters) {
  testing::run_ranks(2, [](World& world) {
    std::vector<PipelineBlock> blocks{pipeline_block<torch::nn::LinearImpl>("a", 4, 4),
                                      pipeline_block<torch::nn::DropoutImpl>("b", 0.5)};
    Pipeline pipeline(blocks, world);
    World alone = world.split(world.rank());
    ShardedModel sharded = shard(pipeline.stage(), alone);
    EXPECT_THAT(testing::message_of([&] {
                  pipeline.forward({torch::ones({2, 4})});
                }),
                HasSubstr("the stages of rank 1 have no parameters, and those of other ranks are sharded"));
  });
}

constexpr const char* kPlaceInStep =
    "Pipeline, stage [01] \\(blocks [ac] to [bd]\\), (forward|backward) of micro-batch [0-3]: [^\n]*";

class MeshKills : public ::testing::TestWithParam<LostRank> {};

// The ranks would wait for an hour.
TEST_P(MeshKills, EndTheOtherRanksWithTheNameStageAndMicroBatch) {
  const RunResult result = run_and_lose(GetParam(), SIGKILL, testing::patient_options().timeout);
  EXPECT_EQ(result.exit_code, 128 + SIGKILL) << result.output;
  EXPECT_THAT(result.output, ContainsRegex(kPlaceInStep + GetParam().name()));
}

INSTANTIATE_TEST_SUITE_P(
    OfEachStageAndTensorRank, MeshKills,
    testing::drawn<LostRank>({{"shm", 5}, {"gloo", 6}},
                             {{"shm", 4}, {"shm", 6}, {"shm", 7}, {"gloo", 4}, {"gloo", 5}, {"gloo", 7}}),
    ::testing::PrintToStringParamName());

class MeshStops : public ::testing::TestWithParam<LostRank> {};

TEST_P(MeshStops, EndTheOtherRanksWithTheNameStageAndMicroBatch) {
  const RunResult result = run_and_lose(GetParam(), SIGSTOP, std::chrono::seconds(3));
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.output, ContainsRegex(kPlaceInStep + GetParam().name() + " did not answer within 3000 ms"));
}

INSTANTIATE_TEST_SUITE_P(OfSomeRanks, MeshStops,
                         testing::drawn<LostRank>({{"shm", 6}, {"gloo", 1}}, {{"shm", 1}, {"gloo", 6}}),
                         ::testing::PrintToStringParamName());

}  // namespace
}  // namespace fsdp
