// A training whose ranks are killed at a moment, and go on from what they had in memory.
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <chrono>
#include <csignal>
#include <functional>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/saved_training.h"
#include "support/run_ranks.h"

namespace fsdp::testing {

inline constexpr int kHotSteps = 6;

// Where a rank is killed.
enum class Moment { BeforeForward, AfterBackward, AfterStep };

struct HotTraining : TrainingKind {
  std::function<void(int step, Moment moment)> at = [](int, Moment) {};

  // From step `first` on. Each rank multiplies its loss by a number that it draws.
  void run(testing_models::TestModel& model, ShardedModel& sharded, Optimizer& optimizer, World& world, int first,
           const at::Generator& generator) const {
    for (int step = first; step < kHotSteps; ++step) {
      hot_checkpoint({.model = &sharded,
                      .optimizer = &optimizer,
                      .step = step,
                      .notes = {{"loop", "at its step"}},
                      .generators = {{"own", generator}}});
      at(step, Moment::BeforeForward);
      {
        std::optional<StepInBackward> scope;
        if (steps_in_backward) scope.emplace(dynamic_cast<PieceOptimizer&>(optimizer).step_in_backward());
        (model.loss(step * world.size() + world.rank()) * (torch::rand({}, generator) + 0.5)).backward();
      }
      at(step, Moment::AfterBackward);
      if (!steps_in_backward) sharded.clip_grad_norm_(1.0);
      optimizer.step();
      at(step, Moment::AfterStep);
      optimizer.zero_grad();
    }
  }
};

inline void expect_equal(const std::vector<torch::Tensor>& expected, const std::vector<torch::Tensor>& found,
                         const std::string& what) {
  ASSERT_EQ(expected.size(), found.size()) << what;
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(expected[i].defined(), found[i].defined()) << what << i;
    if (expected[i].defined()) EXPECT_TRUE(torch::equal(expected[i], found[i])) << what << i;
  }
}

inline void expect_equal(const std::vector<Optimizer::ElementState>& expected,
                         const std::vector<Optimizer::ElementState>& found) {
  ASSERT_EQ(expected.size(), found.size());
  for (size_t i = 0; i < expected.size(); ++i) expect_equal(expected[i].tensors, found[i].tensors, expected[i].name);
}

// Goes on from memory, and from the beginning without it; ends with the bits of a training of its own.
inline void train_hot(World& world, HotTraining training) {
  testing_models::TestModel model = training.make();
  ShardedModel sharded = shard(*model.module, world, training.options);
  const auto optimizer = training.make_optimizer(sharded);
  const auto seeded = [&] { return at::make_generator<at::CPUGeneratorImpl>(static_cast<uint64_t>(world.rank())); };
  const at::Generator generator = seeded();
  const auto left = resume_hot({.model = &sharded, .optimizer = optimizer.get(), .generators = {{"own", generator}}});
  EXPECT_TRUE(!left || left->notes.at("loop") == "at its step");
  if (world.rank() == 0) std::cout << "begins at step " << (left ? left->step : 0) << std::endl;
  training.run(model, sharded, *optimizer, world, left ? static_cast<int>(left->step) : 0, generator);

  testing_models::TestModel other = training.make();
  ShardedModel undisturbed = shard(*other.module, world, training.options);
  const auto of_other = training.make_optimizer(undisturbed);
  training.at = [](int, Moment) {};
  training.run(other, undisturbed, *of_other, world, 0, seeded());
  expect_equal(undisturbed.shards(), sharded.shards(), "shard ");
  const Optimizer::State expected = of_other->state(), found = optimizer->state();
  expect_equal(expected.elements, found.elements);
  expect_equal(expected.scalars, found.scalars);
  for (size_t i = 0; i < undisturbed.buffers().size(); ++i) {
    if (world.rank() != 0) break;  // each rank has its own, and all go on with rank 0's
    EXPECT_TRUE(torch::equal(undisturbed.buffers()[i].second, sharded.buffers()[i].second)) << i;
  }
}

inline LaunchOptions hot_options(const Job& job, int restarts) {
  return {.ranks = job.ranks,
          .backend = job.backend,
          .timeout = std::chrono::hours(1),
          .max_restarts = restarts,
          .plain_rank0 = true,
          .hot_restart = true};
}

// The last rank is killed in step 3 of the first ranks, when all have come there: one that was still in the step before
// would not end it without the other.
inline RunResult run_with_kill(const Job& job, Moment when, const HotTraining& training = {}) {
  return run_ranks_to_end(
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

inline void expect_from_memory(const RunResult& result) {
  using ::testing::HasSubstr;
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output,
              ::testing::AllOf(HasSubstr("begins at step 0\n"), HasSubstr("begins at step 3\n"),
                               HasSubstr("(restart 1 of 1). Their state after 3 steps is in memory.\n")));
}

inline void expect_not_whole(const RunResult& result) {
  using ::testing::HasSubstr;
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output,
              ::testing::AllOf(HasSubstr("Their state in memory is not whole: rank "),
                               HasSubstr(" was changing its state.\n"), ::testing::Not(HasSubstr("begins at step 3"))));
}

}  // namespace fsdp::testing
