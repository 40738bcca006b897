// Pipelines have the bits of one process.
#include <fsdp/fsdp.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "pipeline/small_gpt.h"
#include "support/drawn.h"
#include "support/resident_bytes.h"
#include "support/run_ranks.h"

namespace fsdp {
namespace {

using fsdp::testing::process_bytes;
using fsdp::testing::run_rank_processes;
using fsdp::testing::run_ranks;
using testing_models::inputs_of;
using testing_models::SmallGpt;
using testing_models::StepsOf;
using testing_models::targets_of;
using testing_models::token_loss;
using testing_models::train_plainly;
using testing_models::Trained;

struct PipelineCase {
  PipelineSchedule schedule;
  int ranks = 2, stages_per_rank = 1, micro_batches = 4;
  std::string backend = "auto";

  friend void PrintTo(const PipelineCase& one, std::ostream* out) {
    *out << static_cast<int>(one.schedule) << "_" << one.ranks << "x" << one.stages_per_rank << "_" << one.micro_batches
         << one.backend;
  }
};

constexpr uint64_t kSeed = 3;

void expect_weights(const torch::nn::Module& stage, const SmallGpt& model, const Trained& expected) {
  int compared = 0;
  for (const auto& parameter : stage.named_parameters()) {
    const bool is_tied = model.tied && parameter.key() == "logits.out.weight";
    const std::string name = is_tied ? "words.table.weight" : parameter.key();
    for (const auto& [other, weight] : expected.weights) {
      if (other != name) continue;
      EXPECT_TRUE(torch::equal(parameter.value(), weight)) << parameter.key();
      ++compared;
    }
  }
  EXPECT_EQ(compared, stage.named_parameters().size());
}

// Trains with one optimizer per rank, and compares with one process.
void expect_equal_training(World& world, const SmallGpt& model, const StepsOf& steps, const PipelineOptions& options) {
  const Trained expected = train_plainly(model, steps, kSeed);
  torch::manual_seed(kSeed);
  Pipeline pipeline(testing_models::blocks_of(model), world, options);
  torch::optim::AdamW optimizer(pipeline.stage().parameters(), torch::optim::AdamWOptions(1e-2));
  for (int call = 0; call < steps.steps * steps.calls; ++call) {
    const bool first = world.rank() == 0, last = world.rank() + 1 == world.size();
    const double loss = pipeline.step(first ? inputs_of(model, steps, call) : Tensors(),
                                      last ? targets_of(model, steps, call) : Tensors(), token_loss);
    EXPECT_EQ(loss, expected.losses[call]);
    if ((call + 1) % steps.calls != 0) continue;
    optimizer.step();
    optimizer.zero_grad();
  }
  expect_weights(pipeline.stage(), model, expected);
  EXPECT_TRUE(torch::equal(at::detail::getDefaultCPUGenerator().get_state(), expected.generator));
}

class Pipelines : public ::testing::TestWithParam<PipelineCase> {};

TEST_P(Pipelines, HaveTheBitsOfOneProcess) {
  const PipelineCase& one = GetParam();
  auto options = fsdp::testing::test_options();
  options.backend = one.backend;
  run_ranks(
      one.ranks,
      [&](World& world) {
        expect_equal_training(world, {.layers = 6}, {.micro_batches = one.micro_batches},
                              {.schedule = one.schedule, .stages_per_rank = one.stages_per_rank});
      },
      options);
}

using enum PipelineSchedule;
INSTANTIATE_TEST_SUITE_P(Schedules, Pipelines,
                         fsdp::testing::drawn<PipelineCase>({{OneForwardOneBackward, 4, 1, 5},
                                                             {Interleaved, 2, 2, 3, "gloo"}},
                                                            {{OneAtATime, 1},
                                                             {OneAtATime, 3},
                                                             {AllForwardAllBackward, 2},
                                                             {AllForwardAllBackward, 4, 2, 3},
                                                             {OneForwardOneBackward, 1},
                                                             {OneForwardOneBackward, 2, 1, 1},
                                                             {OneForwardOneBackward, 2, 1, 8},
                                                             {OneForwardOneBackward, 3, 1, 2},
                                                             {OneForwardOneBackward, 4, 1, 3, "gloo"},
                                                             {Interleaved, 1, 3, 2},
                                                             {Interleaved, 2, 2, 1},
                                                             {Interleaved, 2, 4, 4},
                                                             {Interleaved, 3, 2, 5},
                                                             {Interleaved, 4, 2, 8},
                                                             {ZeroBubble, 1},
                                                             {Interleaved, 2, 3, 16},
                                                             {AllForwardAllBackward, 3, 1, 1},
                                                             {ZeroBubble, 2, 1, 2},
                                                             {ZeroBubble, 3, 1, 8},
                                                             {ZeroBubble, 4, 1, 5},
                                                             {ZeroBubble, 2, 2, 3},
                                                             {ZeroBubble, 2, 1, 4, "gloo"}}),
                         [](const auto& info) { return ::testing::PrintToString(info.param); });

TEST(Pipelines, AddTheGradientsOfSeveralCalls) {
  run_ranks(2, [](World& world) { expect_equal_training(world, {}, {.calls = 3}, {}); });
}

// The next step then has few page faults for its activations.
TEST(Pipelines, KeepTheMemoryOfActivationsBetweenSteps) {
  run_rank_processes(2, [](World& world) {
    const SmallGpt model{.length = 128, .width = 256};
    const StepsOf steps{.micro_batches = 16};
    torch::manual_seed(kSeed);
    Pipeline pipeline(testing_models::blocks_of(model), world, {.schedule = AllForwardAllBackward});
    const Tensors inputs = inputs_of(model, steps, 0), targets = targets_of(model, steps, 0);
    for (int step = 0; step < 3; ++step) pipeline.step(inputs, targets, token_loss);
    constexpr int64_t kOfSystem = 100 << 10;  // the system counts pages of several processors approximately
    EXPECT_LE(process_bytes("VmHWM") - process_bytes("VmRSS"), kOfSystem);
  });
}

TEST(Pipelines, RunBlocksWithoutTies) {
  run_ranks(3, [](World& world) { expect_equal_training(world, {.tied = false}, {}, {.cuts = {1, 4, 1}}); });
}

}  // namespace
}  // namespace fsdp
