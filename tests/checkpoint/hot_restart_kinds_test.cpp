// Hot restarts with every strategy and every optimizer: what a rank had in memory is all that each of them goes on
// from.
#include <fsdp/fsdp.h>
#include <gmock/gmock.h>

#include "checkpoint/hot_training.h"
#include "support/drawn.h"
#include "support/train_sharded.h"

namespace fsdp {
namespace {

using testing::expect_from_memory;
using testing::expect_not_whole;
using testing::HotTraining;
using testing::MakeOptimizer;
using testing::Moment;
using testing::run_with_kill;
using testing::RunResult;

template <typename OptimizerType, typename OptimizerOptions>
MakeOptimizer made_of(const OptimizerOptions& options) {
  return [=](ShardedModel& sharded) { return std::make_unique<OptimizerType>(sharded, options); };
}

struct OptimizerKind {
  std::string name;
  MakeOptimizer make;

  friend void PrintTo(const OptimizerKind& kind, std::ostream* out) { *out << kind.name; }
};

// Each kind of state that an optimizer of the library keeps is that of one of these. Of the first two, one keeps
// elements alone, the other whole matrices and blocks of 8 bits.
auto optimizer_kinds() {
  using enum StateDtype;
  return testing::drawn<OptimizerKind>(
      {{"AdamW", made_of<AdamW>(AdamWOptions{.lr = 1e-2})},
       {"Muon", made_of<Muon>(MuonOptions{.lr = 1e-2, .adamw = {.lr = 1e-2, .state_dtype = Block8}})}},
      {{"AdamWInBFloat16", made_of<AdamW>(AdamWOptions{.lr = 1e-2, .state_dtype = BFloat16})},
       {"AdamWInBlock8", made_of<AdamW>(AdamWOptions{.lr = 1e-2, .state_dtype = Block8})},
       {"AdamWithAmsgrad", made_of<Adam>(AdamOptions{.lr = 1e-2, .weight_decay = 0.1, .amsgrad = true})},
       {"SgdWithMomentum", made_of<SGD>(SGDOptions{.lr = 1e-2, .momentum = 0.9, .dampening = 0.1})}});
}

// A job for each strategy that `are_hybrid` says, of which a rank is killed when it has its gradients. With those of
// NoShard the other ranks would do the step without it, so there it is killed before.
void expect_from_memory_with_each_strategy(int ranks, bool are_hybrid, const MakeOptimizer& make_optimizer) {
  std::vector<std::pair<std::string, RunResult>> results;  // looked at when all are there
  for (const auto& [name, options] : testing_models::every_strategy(ranks)) {
    if (name.starts_with("Hybrid") != are_hybrid) continue;
    HotTraining training;
    training.options = options;
    training.make_optimizer = make_optimizer;
    const bool steps_alone = training.options.strategy == Strategy::NoShard;
    const Moment when = steps_alone ? Moment::BeforeForward : Moment::AfterBackward;
    results.emplace_back(name, run_with_kill({ranks, "shm"}, when, training));
  }
  EXPECT_EQ(results.size(), are_hybrid ? 2u : 4u);
  for (const auto& [name, result] : results) {
    SCOPED_TRACE(name);
    expect_from_memory(result);
  }
}

class HotRestartOfEveryKind : public ::testing::TestWithParam<OptimizerKind> {};
INSTANTIATE_TEST_SUITE_P(Optimizers, HotRestartOfEveryKind, optimizer_kinds(), ::testing::PrintToStringParamName());

TEST_P(HotRestartOfEveryKind, EndsInTheBitsOfAnUndisturbedTraining) {
  expect_from_memory_with_each_strategy(2, /*are_hybrid=*/false, GetParam().make);
}

class HotRestartOfHybrids : public ::testing::TestWithParam<OptimizerKind> {};
INSTANTIATE_TEST_SUITE_P(Optimizers, HotRestartOfHybrids, optimizer_kinds(), ::testing::PrintToStringParamName());

TEST_P(HotRestartOfHybrids, EndsInTheBitsOfAnUndisturbedTraining) {
  expect_from_memory_with_each_strategy(4, /*are_hybrid=*/true, GetParam().make);
}

// A backward that steps units has changed the state when it is done; one that has not begun has changed nothing.
TEST(HotRestartOfStepsInBackward, KnowsWhetherTheBackwardHasChangedTheState) {
  HotTraining training;
  training.steps_in_backward = true;
  const RunResult before = run_with_kill({2, "shm"}, Moment::BeforeForward, training);
  const RunResult behind = run_with_kill({2, "shm"}, Moment::AfterBackward, training);
  expect_from_memory(before);
  expect_not_whole(behind);
}

}  // namespace
}  // namespace fsdp
