// A rank that is killed, and a job that goes on from what its ranks had in memory, with the bits of one that nobody
// disturbed.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "support/message_of.h"
#include "support/models.h"
#include "support/run_ranks.h"

namespace fsdp {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::Job;
using ::testing::Not;
using testing::RunResult;
using testing_models::TestModel;

constexpr int kHotSteps = 6;

// Where a rank is killed.
enum class Moment { BeforeForward, AfterBackward, AfterStep };

struct HotTraining {
  std::function<TestModel()> make = [] { return testing_models::make_gpt(); };
  fsdp::Options options = {};
  AdamWOptions adamw = {.lr = 1e-2};
  std::function<void(int step, Moment moment)> at = [](int, Moment) {};

  // From step `first` on.
  void run(TestModel& model, ShardedModel& sharded, AdamW& optimizer, World& world, int first) const {
    for (int step = first; step < kHotSteps; ++step) {
      hot_checkpoint({.model = &sharded, .optimizer = &optimizer, .step = step, .notes = {{"loop", "at its step"}}});
      at(step, Moment::BeforeForward);
      model.loss(step * world.size() + world.rank()).backward();
      at(step, Moment::AfterBackward);
      sharded.clip_grad_norm_(1.0);
      optimizer.step();
      at(step, Moment::AfterStep);
      optimizer.zero_grad();
    }
  }
};

// Goes on from memory, and from the beginning without it; ends with the bits of a training of its own.
void train_hot(World& world, HotTraining training) {
  TestModel model = training.make();
  ShardedModel sharded = shard(*model.module, world, training.options);
  AdamW optimizer(sharded, training.adamw);
  const auto left = resume_hot({.model = &sharded, .optimizer = &optimizer});
  EXPECT_TRUE(!left || left->notes.at("loop") == "at its step");
  if (world.rank() == 0) std::cout << "begins at step " << (left ? left->step : 0) << std::endl;
  training.run(model, sharded, optimizer, world, left ? static_cast<int>(left->step) : 0);

  TestModel other = training.make();
  ShardedModel undisturbed = shard(*other.module, world, training.options);
  AdamW of_other(undisturbed, training.adamw);
  training.at = [](int, Moment) {};
  training.run(other, undisturbed, of_other, world, 0);
  const auto expected = undisturbed.shards(), found = sharded.shards();
  ASSERT_EQ(expected.size(), found.size());
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(torch::equal(expected[i], found[i])) << i;
  for (size_t i = 0; i < undisturbed.buffers().size(); ++i) {
    if (world.rank() != 0) break;  // each rank has its own, and all go on with rank 0's
    EXPECT_TRUE(torch::equal(undisturbed.buffers()[i].second, sharded.buffers()[i].second)) << i;
  }
}

LaunchOptions hot_options(const Job& job, int restarts) {
  return {.ranks = job.ranks,
          .backend = job.backend,
          .timeout = std::chrono::hours(1),
          .max_restarts = restarts,
          .plain_rank0 = true,
          .hot_restart = true};
}

// The last rank is killed in step 3 of the first ranks, when all have come there: one that was still in the step before
// would not end it without the other.
RunResult run_with_kill(const Job& job, Moment when, HotTraining training = {}) {
  return testing::run_ranks_to_end(
      job.ranks,
      [=](World& world) {
        HotTraining here = training;
        here.at = [&](int step, Moment moment) {
          if (world.restarts() > 0 || step != 3 || moment != when) return;
          world.barrier();
          if (world.rank() == world.size() - 1) raise(SIGKILL);
        };
        train_hot(world, here);
      },
      hot_options(job, 1));
}

class HotRestart : public ::testing::TestWithParam<Job> {};
INSTANTIATE_TEST_SUITE_P(Jobs, HotRestart,
                         ::testing::Values(Job{1, "auto"}, Job{2, "shm"}, Job{3, "shm"}, Job{2, "gloo"}),
                         ::testing::PrintToStringParamName());

void expect_from_memory(const RunResult& result) {
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, AllOf(HasSubstr("begins at step 0\n"), HasSubstr("begins at step 3\n"),
                                   HasSubstr("(restart 1 of 1). Their state after 3 steps is in memory.\n")));
}

TEST_P(HotRestart, RepeatsTheStepThatWasBroken) {
  expect_from_memory(run_with_kill(GetParam(), Moment::BeforeForward));
}

TEST_P(HotRestart, RepeatsAStepOfWhichAllGradientsWereThere) {
  expect_from_memory(run_with_kill(GetParam(), Moment::AfterBackward));
}

TEST_P(HotRestart, DoesNotGoOnFromStateThatIsNotWhole) {
  const RunResult result = run_with_kill(GetParam(), Moment::AfterStep);
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, AllOf(HasSubstr("Their state in memory is not whole: rank "),
                                   HasSubstr(" was changing its state.\n"), Not(HasSubstr("begins at step 3"))));
}

TEST(HotRestarts, HoldEveryKindOfState) {
  HotTraining bits8, bf16, buffers, whole;
  bits8.adamw.state_dtype = StateDtype::Block8;
  bf16.options.mixed_precision.param_dtype = torch::kBFloat16;
  bf16.adamw.state_dtype = StateDtype::BFloat16;
  for (const auto& kind : testing_models::model_kinds()) {
    if (kind.make().module->named_buffers().size() > 0) buffers.make = kind.make;
  }
  whole.options.strategy = Strategy::NoShard;
  std::vector<RunResult> results;  // looked at when all are there: each call runs those before it once more
  for (const HotTraining& training : {bits8, bf16, buffers, whole}) {
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
  testing::run_ranks(2, [](World& world) { train_hot(world, {}); });
  EXPECT_EQ(testing::run_process([] { return launch({.ranks = 2, .hot_restart = true}, [](World&) {}); }).exit_code, 2);
}

}  // namespace
}  // namespace fsdp
