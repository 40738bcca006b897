// The options that --plan chooses, as flags, and what they are recorded as.
#include "options/plan_choice.h"

#include <fsdp/error.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "options/configuration_file.h"
#include "options/contradictions.h"
#include "support/temporary_folder.h"

namespace trainer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const char* const kFlags = "--strategy no-shard --batch 4 --micro-batches 3 --activation-checkpoint selective";

TEST(PlanChoice, SetsFlags) {
  RunOptions options;
  options.target_tokens_per_step = 1000;
  const RunOptions chosen = with_flags(options, std::string("--sequence-parallel ") + kFlags);
  EXPECT_TRUE(chosen.sequence_parallel);
  EXPECT_EQ(chosen.strategy, "no-shard");
  EXPECT_EQ(chosen.batch, 4);
  EXPECT_EQ(chosen.micro_batches, 3);
  EXPECT_EQ(chosen.activation_checkpoint, "selective");
  EXPECT_FALSE(chosen.target_tokens_per_step);
  EXPECT_TRUE(chosen.chosen.flags.contains("--micro-batches"));
  EXPECT_TRUE(with_flags(options, "--strategy no-shard").target_tokens_per_step);
  EXPECT_THROW(with_flags(options, "--batch none"), fsdp::Error);
  EXPECT_THROW(with_flags(options, "--bach 1"), fsdp::Error);
}

TEST(PlanChoice, LeavesOutFlagsThatAreGiven) {
  RunOptions options;
  EXPECT_EQ(free_flags(kFlags, options), kFlags);
  options.chosen.flags = {"--strategy", "--micro-batches"};
  EXPECT_EQ(free_flags(kFlags, options), "--batch 4 --activation-checkpoint selective");
}

TEST(PlanChoice, IsRecordedWithARun) {
  TemporaryFolder folder;
  RunOptions options;
  options.target_tokens_per_step = 1000;
  options.run = folder / "run";
  EXPECT_EQ(recorded_flags(options), "");
  folder.write("run/config.toml", configuration_toml(with_flags(options, kFlags)));
  EXPECT_EQ(recorded_flags(options), kFlags);
  options.chosen.flags = {"--batch", "--micro-batches"};
  EXPECT_EQ(recorded_flags(options), "--strategy no-shard --activation-checkpoint selective");
  folder.write("run/config.toml", configuration_toml(RunOptions()));
  EXPECT_EQ(recorded_flags(options), "");
  folder.write("run/config.toml", "[sharding]\nstrategy = 'none'\n");
  EXPECT_THROW(recorded_flags(options), fsdp::Error);
}

TEST(PlanChoice, IsNotForAllRuns) {
  RunOptions options;
  options.elastic = "1:2";
  options.offload = "optimizer";
  options.activation_memory = 1e9;
  EXPECT_THAT(contradictions(options), IsEmpty());
  options.plan = "auto";
  EXPECT_THAT(contradictions(options),
              ElementsAre(HasSubstr("--plan is given with --elastic"), HasSubstr("--plan is given with --offload"),
                          HasSubstr("--plan and --activation-memory are both given")));
  RunOptions evaluation;
  evaluation.plan = "auto";
  evaluation.eval_only = true;
  EXPECT_THAT(contradictions(evaluation), ElementsAre(HasSubstr("--plan is given with --eval-only")));
}

}  // namespace
}  // namespace trainer
