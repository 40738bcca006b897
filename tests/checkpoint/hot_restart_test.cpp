// A rank that is killed, and a job that goes on from what its ranks had in memory, with the bits of one that nobody
// disturbed.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "checkpoint/hot_training.h"
#include "support/drawn.h"
#include "support/models.h"
#include "support/run_ranks.h"

namespace fsdp {
namespace {

using ::testing::AllOf;
using testing::expect_from_memory;
using testing::expect_not_whole;
using ::testing::HasSubstr;
using testing::hot_options;
using testing::HotTraining;
using testing::Job;
using testing::Moment;
using ::testing::Not;
using testing::run_with_kill;
using testing::RunResult;
using testing::train_hot;

class HotRestart : public ::testing::TestWithParam<Job> {};
INSTANTIATE_TEST_SUITE_P(Jobs, HotRestart,
                         testing::drawn<Job>({Job{3, "shm"}, Job{2, "gloo"}}, {Job{1, "auto"}, Job{2, "shm"}}),
                         ::testing::PrintToStringParamName());

TEST_P(HotRestart, RepeatsTheStepThatWasBroken) {
  expect_from_memory(run_with_kill(GetParam(), Moment::BeforeForward));
}

TEST_P(HotRestart, RepeatsAStepOfWhichAllGradientsWereThere) {
  expect_from_memory(run_with_kill(GetParam(), Moment::AfterBackward));
}

TEST_P(HotRestart, DoesNotGoOnFromStateThatIsNotWhole) {
  expect_not_whole(run_with_kill(GetParam(), Moment::AfterStep));
}

// hot_restart_kinds_test.cpp has the optimizers' and the strategies'.
TEST(HotRestarts, HoldParametersOfLittlePrecisionAndBuffers) {
  HotTraining bf16, buffers;
  bf16.options.mixed_precision.param_dtype = torch::kBFloat16;
  for (const auto& kind : testing_models::model_kinds()) {
    if (kind.make().module->named_buffers().size() > 0) buffers.make = kind.make;
  }
  std::vector<RunResult> results;  // looked at when all are there: each call runs those before it once more
  for (const HotTraining& training : {bf16, buffers}) {
    results.push_back(run_with_kill({2, "shm"}, Moment::BeforeForward, training));
  }
  for (const RunResult& result : results) expect_from_memory(result);
}

// Also of the ranks that took it over, again and again, and before they have done a step.
TEST(HotRestarts, GoOnAfterOneAnother) {
  const RunResult result = testing::run_ranks_to_end(
      2,
      [](World& world) {
        HotTraining training;
        training.at = [&](int step, Moment moment) {
          const bool is_time = step == std::vector{1, 4, 4, -1}.at(static_cast<size_t>(world.restarts()));
          if (!is_time || moment != Moment::BeforeForward) return;
          world.barrier();
          if (world.rank() == world.restarts() % 2) raise(SIGKILL);
        };
        train_hot(world, training);
      },
      hot_options({2, "shm"}, 3));
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output,
              ::testing::ContainsRegex("begins at step 0\n(.|\n)*begins at step 1\n(.|\n)*begins at step "
                                       "4\n(.|\n)*begins at step 4\n"));
}

// For longer than a rank has that ends itself after another one's failure.
TEST(HotRestarts, WaitForARankThatIsInTheMidstOfItsUpdate) {
  const RunResult result = testing::run_ranks_to_end(
      2,
      [](World& world) {
        HotTraining training;
        training.at = [&](int step, Moment moment) {
          if (world.restarts() > 0) return;
          if (world.rank() == 0 && step == 2 && moment == Moment::AfterStep)
            std::this_thread::sleep_for(std::chrono::seconds(4));
          if (world.rank() == 1 && step == 3 && moment == Moment::BeforeForward) raise(SIGKILL);
        };
        train_hot(world, training);
      },
      hot_options({2, "shm"}, 1));
  expect_from_memory(result);
}

// The program's own, with other operators than a step's.
class HotRestartAfterAWrite : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(OfTheOptimizersState, HotRestartAfterAWrite, ::testing::Bool(),
                         ::testing::PrintToStringParamName());

TEST_P(HotRestartAfterAWrite, DoesNotGoOnFromIt) {
  const RunResult result = testing::run_ranks_to_end(
      2,
      [](World& world) {
        testing_models::TestModel model = testing_models::make_gpt();
        ShardedModel sharded = shard(*model.module, world);
        AdamW optimizer(sharded);
        const Checkpoint state{.model = &sharded, .optimizer = &optimizer, .step = 3};
        EXPECT_FALSE(resume_hot(state));
        if (world.restarts() > 0) return;
        const torch::NoGradGuard no_grad;
        for (const torch::Tensor& piece : sharded.shards()) torch::Tensor(piece).fill_(1);  // is there at the next call
        hot_checkpoint(state);
        if (GetParam()) {
          for (const auto& one : optimizer.state().elements) torch::Tensor(one.tensors[0]).add_(1);
        } else {
          for (const torch::Tensor& piece : sharded.shards()) torch::Tensor(piece).fill_(2);
        }
        world.barrier();
        if (world.rank() == 1) raise(SIGKILL);
        world.barrier();
      },
      hot_options({2, "shm"}, 1));
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("Their state in memory is not whole"));
}

TEST(HotRestarts, TellAnotherModel) {
  const RunResult result = testing::run_ranks_to_end(
      2,
      [](World& world) {
        HotTraining training;
        training.make = [&] { return testing_models::make_gpt(world.restarts() == 1 ? 2 : 3); };
        training.at = [&](int step, Moment) {
          if (world.restarts() == 0 && step == 2) raise(SIGKILL);
        };
        train_hot(world, training);
      },
      hot_options({2, "shm"}, 2));
  EXPECT_EQ(result.exit_code, 0) << result.output;  // the third ranks begin anew
  EXPECT_THAT(result.output,
              AllOf(HasSubstr("expected the "), HasSubstr("Make the model and the optimizer in the same"),
                    Not(HasSubstr("begins at step 2"))));
}

TEST(HotRestarts, AreNothingWithoutTheOption) {
  testing::run_rank_processes(2, [](World& world) { train_hot(world, {}); });
  EXPECT_EQ(testing::run_process([] { return launch({.ranks = 2, .hot_restart = true}, [](World&) {}); }).exit_code, 2);
}

}  // namespace
}  // namespace fsdp
