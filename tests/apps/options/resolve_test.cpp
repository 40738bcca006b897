#include "options/resolve.h"
#include "options/contradictions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trainer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

AllOptions small() {
  AllOptions options;
  options.batch = 2;
  options.model.context = 10;
  return options;
}

TEST(Resolve, CountsMicroBatchesForTokens) {
  struct Case {
    int64_t tokens, ranks, expected;
  };
  const std::vector<Case> cases = {{80, 2, 2}, {79, 2, 2}, {61, 2, 2}, {59, 2, 1}, {1, 2, 1}, {80, 4, 1}, {100, 1, 5}};
  for (const auto& [tokens, ranks, expected] : cases) {
    AllOptions options = small();
    options.target_tokens_per_step = tokens;
    EXPECT_THAT(resolve(options, {.ranks = ranks}), IsEmpty());
    EXPECT_EQ(options.micro_batches, expected) << tokens << " tokens on " << ranks << " ranks";
    EXPECT_EQ(options.ranks, ranks);
  }
}

TEST(Resolve, CountsStepsForEpochs) {
  AllOptions options = small();
  options.epochs = 2.5;
  EXPECT_THAT(resolve(options, {.ranks = 2}), IsEmpty());
  EXPECT_FALSE(options.warmup.has_value());  // not known without the data
  EXPECT_THAT(resolve(options, {.ranks = 2, .windows = 101}), IsEmpty());
  EXPECT_EQ(options.steps, 63);  // of 4 windows, in 252.5
  EXPECT_EQ(options.warmup, 12);
  options.epochs = 0.001;
  options.warmup.reset();
  EXPECT_THAT(resolve(options, {.ranks = 2, .windows = 101}), IsEmpty());
  EXPECT_EQ(options.steps, 1);
}

TEST(Resolve, MayBeCalledAgainWhenTheJobIsKnown) {
  AllOptions options = small();
  options.target_tokens_per_step = 160;
  EXPECT_THAT(resolve(options, {.ranks = 1}), IsEmpty());
  EXPECT_EQ(options.micro_batches, 8);
  EXPECT_THAT(resolve(options, {.ranks = 4, .windows = 50}), IsEmpty());
  EXPECT_EQ(options.micro_batches, 2);
  EXPECT_EQ(options.steps, 300);
}

TEST(Resolve, FillsInTheSchedule) {
  AllOptions options = small();
  options.steps = 1000;
  options.schedule = "wsd";
  EXPECT_THAT(resolve(options, {}), IsEmpty());
  EXPECT_EQ(options.warmup, 100);
  EXPECT_EQ(options.decay_steps, 100);
  EXPECT_FALSE(options.muon_lr.has_value());
  AllOptions short_run = small();
  short_run.steps = 3;
  short_run.warmup = 3;
  short_run.schedule = "wsd";
  short_run.optimizer = "muon";
  EXPECT_THAT(resolve(short_run, {}), IsEmpty());
  EXPECT_EQ(short_run.decay_steps, 1);
  EXPECT_EQ(short_run.muon_lr, short_run.lr);
}

TEST(Resolve, SaysWhatDoesNotFitIntoTheSteps) {
  AllOptions options = small();
  options.warmup = 301;
  EXPECT_THAT(resolve(options, {}), ElementsAre("--warmup 301 is more than --steps 300."));
  options.warmup = 200;
  options.schedule = "wsd";
  options.decay_steps = 101;
  options.trace_steps = StepRange{301, 302};
  EXPECT_THAT(resolve(options, {}), ElementsAre("--warmup 200 and --decay-steps 101 are more than --steps 300.",
                                                "--trace-steps begins with step 301, after --steps 300."));
}

TEST(Contradictions, OfGroupsAndRanks) {
  AllOptions options;
  EXPECT_THAT(contradictions(options), IsEmpty());
  options.ranks = 4;
  options.shard_group_size = 3;
  options.strategy = "no-shard";
  EXPECT_THAT(contradictions(options), ElementsAre(HasSubstr("which shards nothing"), HasSubstr("does not divide")));
}

TEST(Contradictions, OfOffload) {
  AllOptions options;
  options.offload_directory = "/scratch";
  EXPECT_THAT(contradictions(options), ElementsAre(HasSubstr("--offload is none")));
  options.offload = "all";
  options.eval_only = true;
  EXPECT_THAT(contradictions(options), IsEmpty());
  options.offload_directory.clear();
  EXPECT_THAT(contradictions(options), ElementsAre(HasSubstr("Give --offload-directory as well")));
  AllOptions activations;
  activations.offload_activations = true;
  activations.offload_directory = "/scratch";
  EXPECT_THAT(contradictions(activations), IsEmpty());
}

TEST(Contradictions, OfActivations) {
  AllOptions options;
  options.activation_memory = 1e9;
  EXPECT_THAT(contradictions(options), IsEmpty());
  options.activation_checkpoint = "selective";
  EXPECT_THAT(contradictions(options),
              ElementsAre(HasSubstr("--activation-memory and --activation-checkpoint selective are both given")));
}

TEST(Saves, AreThereForRunsThatStartAgain) {
  AllOptions options;
  EXPECT_EQ(options.minutes_between_saves(), 0);
  EXPECT_FALSE(options.saves_beside_steps());
  options.max_restarts = 3;
  EXPECT_EQ(options.minutes_between_saves(), AllOptions::kMinutesBetweenSaves);
  EXPECT_TRUE(options.saves_beside_steps());
  options.save_minutes = 0;
  EXPECT_EQ(options.minutes_between_saves(), 0);
  options.save_minutes.reset();
  options.save_every = 5;
  EXPECT_EQ(options.minutes_between_saves(), 0);
}

TEST(Contradictions, OfRunsThatStartAgain) {
  AllOptions options;
  options.no_save = true;
  EXPECT_THAT(contradictions(options), IsEmpty());
  options.elastic = "1:2";
  EXPECT_THAT(contradictions(options), ElementsAre(HasSubstr("which go on from a checkpoint")));
  options.elastic.clear();
  options.hot_restart = true;
  EXPECT_THAT(contradictions(options), IsEmpty());
}

TEST(Contradictions, OfRecomputation) {
  AllOptions options;
  options.activation_checkpoint = std::to_string(options.model.layers);
  EXPECT_THAT(contradictions(options), IsEmpty());
  options.activation_checkpoint = std::to_string(options.model.layers + 1);
  EXPECT_THAT(contradictions(options), ElementsAre(HasSubstr("the number of layers. Use all.")));
}

TEST(Windows, ShareTheirEnds) {
  EXPECT_EQ(windows_in(0, 10), 0);
  EXPECT_EQ(windows_in(10, 10), 0);
  EXPECT_EQ(windows_in(11, 10), 1);
  EXPECT_EQ(windows_in(20, 10), 1);
  EXPECT_EQ(windows_in(21, 10), 2);
}

}  // namespace
}  // namespace trainer
