// The arithmetic of a trainer's options and model; planned_memory_test.cpp compares it with runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/model_sizes.h"
#include "planning/dry_run.h"
#include "planning/model_parts.h"
#include "planning/planned_sharding.h"

namespace trainer {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(PlannedSharding, HasMomentsInFewerBits) {
  // Padded 128, 64 and 1024.
  const std::vector<fsdp::plan::Unit> units = {{{36}, {64, true}}, {{64, true}}, {{1000, true}}};
  const auto optimizer_bytes = [&](const char* state, bool muon) {
    RunOptions options;
    options.ranks = 2;
    options.optimizer = muon ? "muon" : "adamw";
    options.optimizer_state = state;
    return fsdp::plan::state_memory(units, planned_sharding(options))[0].optimizer;
  };
  EXPECT_EQ(optimizer_bytes("fp32", false), 2 * 4 * (36 + 64 + 512));
  EXPECT_EQ(optimizer_bytes("bf16", false), 2 * 2 * (36 + 64 + 512));
  EXPECT_EQ(optimizer_bytes("8bit", false), 2 * (36 + 64 + 512) + 2 * 4 * (1 + 1 + 8));
  EXPECT_EQ(optimizer_bytes("8bit", true), 2 * 36 + 2 * 4 * 1 + 4 * (64 + 512));
}

TEST(PlannedSharding, AsksStrategiesForTheirGroups) {
  RunOptions options;
  options.ranks = 4;
  EXPECT_EQ(planned_sharding(options).group, 4);
  options.shard_group_size = 2;
  options.strategy = "hybrid-shard";
  EXPECT_EQ(planned_sharding(options).group, 2);
  EXPECT_TRUE(planned_sharding(options).shares_buffers);
  options.strategy = "hybrid-shard-grad-op";
  EXPECT_FALSE(planned_sharding(options).shares_buffers);
  EXPECT_FALSE(planned_sharding(options).full_for_the_step);
  options.strategy = "no-shard";
  EXPECT_EQ(planned_sharding(options).group, 1);
  EXPECT_TRUE(planned_sharding(options).full_for_the_step);
  EXPECT_TRUE(planned_sharding(options).sums_in_place);
  EXPECT_FALSE(planned_sharding(options, /*hosts=*/2).sums_in_place);
  EXPECT_FALSE(planned_sharding(options, /*hosts=*/1, /*on_gpus=*/true).sums_in_place);
  options.reduce_dtype = "bf16";
  EXPECT_FALSE(planned_sharding(options).sums_in_place);
}

TEST(ModelParts, AreAllOfTheModel) {
  for (const std::string& size : models::size_names()) {
    SCOPED_TRACE(size);
    const models::ModelConfig config = *models::config_of_size(size);
    const ModelParts parts = parts_of(config);
    EXPECT_EQ(parts.numel(), models::parameter_numel(config));
    int64_t numel = 0;
    for (const fsdp::plan::Unit& unit : parts.units) numel += numel_of(unit);
    EXPECT_EQ(numel, models::parameter_numel(config));
  }
}

TEST(ModelParts, KnowGpt2) {
  const models::ModelConfig gpt2 = *models::config_of_size("gpt2");
  EXPECT_EQ(parts_of(gpt2).numel(), 124'439'808);  // of the published weights
  // 6 for each parameter but the 1024 positions, which are looked up, and 12 layers x 12 x 768 x 1024
  EXPECT_DOUBLE_EQ(models::flops_per_token(gpt2, 1024), 6.0 * (124'439'808 - 1024 * 768) + 12.0 * 12 * 768 * 1024);
}

TEST(DryRun, TellsAModelOfEightBillionParameters) {
  RunPlan plan;
  RunOptions& options = plan.options;
  options.model = {.vocabulary = 128256, .context = 8192, .width = 4096, .layers = 36, .heads = 32};
  options.ranks = 8;
  options.batch = 1;
  options.param_dtype = "bf16";
  options.steps = 1000;
  const std::string text = dry_run_text(plan);
  for (const char* part : {"7,808,573,440\n", "embeddings", "36 of 201,379,840", "65,536 tokens",
                           "8 ranks x 1 micro-batch x 1 sequence x 8192 tokens", "1,000 steps, 65.5M tokens"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  EXPECT_THAT(text, Not(HasSubstr("an epoch")));
}

TEST(DryRun, CountsStepsOfAnEpochWhereTheDataIsKnown) {
  EXPECT_THAT(dry_run_text({.options = {}, .windows = 100}), HasSubstr("an epoch              12.5 steps\n"));
}

}  // namespace
}  // namespace trainer
