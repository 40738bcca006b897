// A step that begins while the backward runs, and breaks off there.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/drawn.h"
#include "support/message_of.h"
#include "support/run_ranks.h"
#include "support/scratch_directory.h"

namespace fsdp {
namespace {

using fsdp::testing::drawn;
using fsdp::testing::Job;
using fsdp::testing::message_of;
using fsdp::testing::run_ranks;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

class BrokenStepInBackward : public ::testing::TestWithParam<Job> {};
INSTANTIATE_TEST_SUITE_P(Jobs, BrokenStepInBackward,
                         drawn<Job>({Job{2, "shm"}, Job{3, "gloo"}}, {Job{1, "auto"}, Job{2, "gloo"}}),
                         ::testing::PrintToStringParamName());

constexpr int kBlocks = 8;

// Two full units at a time, or all of them: then each is gathered again as soon as it was stepped.
const std::vector<Options> kBuffers = {{}, {.buffers = kBlocks, .prefetch = kBlocks - 1}};

// Eight matrices, each a unit, one with a bias; what is done with the input's gradient decides about the backward's
// end.
struct Chain {
  explicit Chain(World& world, const Options& options = {}) {
    std::vector<NamedUnit> units;
    for (int i = 0; i < kBlocks; ++i) {
      weights.push_back(torch::eye(8).set_requires_grad(true));
      const std::string name = "block" + std::to_string(i);
      units.push_back({name, {{name + ".weight", weights[i]}}, {}});
    }
    units[6].parameters.emplace_back("block6.bias", bias);
    sharded.emplace(shard(units, world, options));
    optimizer.emplace(*sharded, AdamWOptions{.lr = 0.1});
  }
  void step(const std::function<void()>& at_the_end = [] {}) {
    backward(at_the_end);
    optimizer->step();
  }
  void backward(const std::function<void()>& at_the_end = [] {}) {
    auto in_backward = optimizer->step_in_backward();
    torch::Tensor x = torch::ones({2, 8}).matmul(weights[0]);
    x.register_hook([at_the_end](const torch::Tensor& gradient) {
      at_the_end();
      return gradient;
    });
    for (size_t i = 1; i < weights.size(); ++i) {
      x = torch::relu(x.matmul(weights[i]));
      if (i == 6 && uses_bias) x = x + bias;
    }
    x.sum().backward();
  }
  Checkpoint checkpoint() { return {.model = &*sharded, .optimizer = &*optimizer}; }

  std::vector<torch::Tensor> weights;
  torch::Tensor bias = torch::ones({8}).set_requires_grad(true);
  bool uses_bias = true;
  std::optional<ShardedModel> sharded;
  std::optional<AdamW> optimizer;
};

// At the end of its backward.
void expect_step_throws(Chain& chain) {
  EXPECT_THAT(message_of([&] { chain.step([] { throw std::runtime_error("not finite"); }); }), HasSubstr("not finite"));
}

TEST_P(BrokenStepInBackward, AUseAfterTheUnitWasSteppedIsAnErrorAndNeedsACheckpoint) {
  run_ranks(GetParam(), [](World& world) {
    Chain chain(world);
    for (int step = 0; step < 3; ++step) chain.step();
    EXPECT_THAT(message_of<Error>([&] { chain.step([&] { chain.weights[7].detach().sum(); }); }),
                AllOf(HasSubstr("unit=block7"), HasSubstr("after the unit was stepped inside this backward")));
    EXPECT_THAT(message_of<Error>([&] { chain.step(); }), HasSubstr("Load a checkpoint"));
  });
}

TEST_P(BrokenStepInBackward, ABackwardThatThrowsAfterSomeUnitsWereSteppedNeedsACheckpoint) {
  run_ranks(GetParam(), [](World& world) {
    Chain chain(world);
    for (int step = 0; step < 3; ++step) chain.step();
    expect_step_throws(chain);
    EXPECT_THAT(message_of<Error>([&] { chain.sharded->zero_grad(); }), HasSubstr("Load a checkpoint"));
  });
}

void expect_same_steps(Chain& chain, Chain& expected) {
  for (int step = 0; step < 3; ++step) chain.step(), expected.step();
  for (size_t i = 0; i < chain.sharded->shards().size(); ++i)
    EXPECT_TRUE(torch::equal(chain.sharded->shards()[i], expected.sharded->shards()[i])) << i;
}

// After each of `breaks`, which break off a step of the chain, it goes on from a checkpoint.
void expect_to_go_on_after(const std::vector<std::function<void(Chain&)>>& breaks, World& world,
                           const std::filesystem::path& saved) {
  for (const Options& options : kBuffers) {
    Chain chain(world, options), expected(world);
    expect_same_steps(chain, expected);
    save_checkpoint(saved, chain.checkpoint());
    for (const auto& break_off : breaks) {
      break_off(chain);
      for (Chain* one : {&chain, &expected}) load_checkpoint(saved, one->checkpoint());
      expect_same_steps(chain, expected);
    }
  }
}

TEST_P(BrokenStepInBackward, AfterABackwardThatThrewACheckpointIsGoneOnFrom) {
  testing::ScratchDirectory scratch;
  run_ranks(GetParam(), [&](World& world) {
    const auto break_off_and_go_on = [](Chain& chain) {
      expect_step_throws(chain);
      EXPECT_THAT(message_of<Error>([&] { chain.step(); }), HasSubstr("Load a checkpoint"));
    };
    expect_to_go_on_after({break_off_and_go_on, expect_step_throws}, world, scratch.path() / "saved");
  });
}

// A rank that lacks a gradient cannot know that none comes, and so has not stepped the unit when the backward throws.
TEST_P(BrokenStepInBackward, InWhichRanksSteppedDifferentUnitsIsGoneOnFromACheckpoint) {
  testing::ScratchDirectory scratch;
  run_ranks(GetParam(), [&](World& world) {
    const auto break_off = [&](Chain& chain) {
      chain.uses_bias = world.rank() == 0;
      expect_step_throws(chain);
      chain.uses_bias = true;
    };
    expect_to_go_on_after({break_off}, world, scratch.path() / "saved");
  });
}

TEST_P(BrokenStepInBackward, IsNotOneInWhichRanksSteppedDifferentUnits) {
  run_ranks(GetParam(), [](World& world) {
    Chain chain(world, kBuffers[1]), expected(world);
    expect_same_steps(chain, expected);
    for (Chain* one : {&chain, &expected}) one->uses_bias = world.rank() == 0;
    expect_same_steps(chain, expected);
  });
}

TEST_P(BrokenStepInBackward, AnOptimizerThatIsDestroyedBeforeItsStepLeavesTheModelUsable) {
  testing::ScratchDirectory scratch;
  run_ranks(GetParam(), [&](World& world) {
    Chain chain(world), expected(world);
    const auto replace = [&] {
      chain.optimizer.reset();
      chain.optimizer.emplace(*chain.sharded, AdamWOptions{.lr = 0.1});
    };
    chain.backward();  // without a plan: nothing was stepped
    replace();
    chain.optimizer->step();
    chain.optimizer->zero_grad();
    expected.step();
    expect_same_steps(chain, expected);

    save_checkpoint(scratch.path() / "saved", chain.checkpoint());
    chain.backward();
    replace();
    EXPECT_THAT(message_of<Error>([&] { chain.step(); }),
                AllOf(HasSubstr("optimizer of step_in_backward() was destroyed"), HasSubstr("Load a checkpoint")));
    load_checkpoint(scratch.path() / "saved", chain.checkpoint());
    expect_same_steps(chain, expected);
  });
}

// There is no plan, so nothing was stepped.
TEST_P(BrokenStepInBackward, ABackwardThatThrowsBeforeLeavesNothingBehind) {
  run_ranks(GetParam(), [](World& world) {
    Chain chain(world), expected(world);
    expect_step_throws(chain);
    chain.sharded->zero_grad();
    for (int step = 0; step < 3; ++step) chain.step(), expected.step();
    for (size_t i = 0; i < chain.sharded->shards().size(); ++i)
      EXPECT_TRUE(torch::equal(chain.sharded->shards()[i], expected.sharded->shards()[i])) << i;
  });
}

class FailureInStepInBackward : public ::testing::TestWithParam<Job> {};
INSTANTIATE_TEST_SUITE_P(Jobs, FailureInStepInBackward, ::testing::Values(Job{2, "gloo"}, Job{2, "shm"}),
                         ::testing::PrintToStringParamName());

// Rank 1 of two raises `signal` when it has stepped most of the units.
testing::RunResult run_with_signal(const Job& job, int signal, std::chrono::milliseconds timeout) {
  return testing::run_ranks_to_end(job.ranks,
                                   [&](World& world) {
                                     Chain chain(world, kBuffers[1]);
                                     for (int step = 0; step < 3; ++step) chain.step();
                                     chain.step([&] {
                                       if (world.rank() == 1) raise(signal);
                                     });
                                   },
                                   {.backend = job.backend, .timeout = timeout});
}

// A rank that waited for the timeout would not end before the test is ended.
TEST_P(FailureInStepInBackward, OfARankThatIsKilledEndsTheOthersAtOnceAndNamesIt) {
  const auto result = run_with_signal(GetParam(), SIGKILL, std::chrono::minutes(10));
  EXPECT_EQ(result.exit_code, 128 + SIGKILL) << result.output;
  EXPECT_THAT(result.output, ContainsRegex("fsdp rank 0/2[^\n]*rank 1 (is gone \\(it was killed|was closed)"));
}

TEST_P(FailureInStepInBackward, OfARankThatIsStoppedEndsTheOthersAfterTheTimeoutAndNamesIt) {
  const auto result = run_with_signal(GetParam(), SIGSTOP, std::chrono::seconds(3));
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.output, ContainsRegex("fsdp rank 0/2[^\n]*rank 1 did not answer within 3000 ms"));
}

}  // namespace
}  // namespace fsdp
