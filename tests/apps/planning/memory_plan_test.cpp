// The arithmetic alone; planned_memory_test.cpp compares it with runs.
#include "planning/memory_plan.h"
#include "models/model_sizes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "planning/dry_run.h"

namespace trainer {
namespace {

using testing::HasSubstr;
using testing::Not;

// Three units of 100, 64 and 1000 elements; padded 128, 64 and 1024.
const std::vector<PlannedUnit> kUnits = {{{36}, {64, true}}, {{64, true}}, {{1000, true}}};

TEST(MemoryPlan, OfOneRankAlone) {
  const std::vector<MemoryPlan> plans = plan_memory(kUnits, {});
  ASSERT_EQ(plans.size(), 1u);
  EXPECT_EQ(plans[0].parameters, 4 * (128 + 64 + 1024));
  EXPECT_EQ(plans[0].gradients, 4 * 1164);
  EXPECT_EQ(plans[0].optimizer, 8 * 1164);
  EXPECT_EQ(plans[0].full_parameters + plans[0].full_gradients + plans[0].copies, 0);
}

TEST(MemoryPlan, OfFullShard) {
  const std::vector<MemoryPlan> plans = plan_memory(kUnits, {.ranks = 2, .group = 2});
  ASSERT_EQ(plans.size(), 2u);
  // The slices of a unit are multiples of 64: 64, 64 and 512, the second rank's of the second unit being padding.
  EXPECT_EQ(plans[0].parameters, 4 * (64 + 64 + 512));
  EXPECT_EQ(plans[1].parameters, 4 * (64 + 64 + 512));
  EXPECT_EQ(plans[0].gradients, 4 * (64 + 64 + 512));
  EXPECT_EQ(plans[1].gradients, 4 * (64 + 0 + 512));
  EXPECT_EQ(plans[0].optimizer, 8 * (36 + 64 + 512));
  EXPECT_EQ(plans[1].optimizer, 8 * (64 + 0 + 488));
  EXPECT_EQ(plans[0].full_gradients, 4 * 3 * 1024);
  EXPECT_EQ(plans[0].copies, 4 * 2 * 1024);
}

// On GPUs a gather fills a buffer, also between ranks of one host, and nothing passes through for other hosts.
TEST(MemoryPlan, OfGpus) {
  for (const int64_t hosts : {1, 2}) {
    const std::vector<MemoryPlan> plans =
        plan_memory(kUnits, {.ranks = 2, .hosts = hosts, .group = 2, .on_gpus = true});
    EXPECT_EQ(plans[0].full_parameters, 4 * 2 * 1024);
    EXPECT_EQ(plans[0].full_gradients, 4 * 3 * 1024);
    EXPECT_EQ(plans[0].copies, 0);
  }
}

// One GPU alone casts units into buffers where they are full only while they are used; elsewhere a copy stays.
TEST(MemoryPlan, OfOneGpuInSixteenBits) {
  const MemoryPlan casts = plan_memory(kUnits, {.param_bytes = 2, .on_gpus = true})[0];
  EXPECT_EQ(casts.parameters, 4 * (128 + 64 + 1024));
  EXPECT_EQ(casts.full_parameters, 2 * 2 * 1024);
  const MemoryPlan copy = plan_memory(kUnits, {.param_bytes = 2, .shares_buffers = false, .on_gpus = true})[0];
  EXPECT_EQ(copy.parameters, 6 * (128 + 64 + 1024));
  EXPECT_EQ(copy.full_parameters, 0);
}

TEST(MemoryPlan, OfReplicasOnGpus) {
  const std::vector<MemoryPlan> plans =
      plan_memory(kUnits, {.ranks = 2, .group = 1, .full_for_the_step = true, .on_gpus = true});
  EXPECT_EQ(plans[0].full_parameters, 0);
  EXPECT_EQ(plans[0].full_gradients, 4 * (128 + 64 + 1024));
}

// The GPU has full units and gradients.
TEST(MemoryPlan, OfShardsOnTheHostBesideGpus) {
  for (const int64_t ranks : {1, 2}) {
    const std::vector<MemoryPlan> plans =
        plan_memory(kUnits, {.ranks = ranks, .group = ranks, .on_gpus = true, .shards_on_host = true});
    EXPECT_EQ(plans[0].on_host, plans[0].parameters + plans[0].gradients + plans[0].optimizer);
    EXPECT_EQ(plans[0].full_parameters, 4 * 2 * 1024);
    EXPECT_EQ(plans[0].total(), plans[0].full_parameters + plans[0].full_gradients);
  }
}

TEST(MemoryPlan, OfReplicas) {
  const std::vector<MemoryPlan> plans = plan_memory(kUnits, {.ranks = 2, .group = 1, .full_for_the_step = true});
  EXPECT_EQ(plans[0].parameters, 4 * (128 + 128 + 1024));
  EXPECT_EQ(plans[0].gradients, 4 * (128 + 64 + 1024));
  EXPECT_EQ(plans[0].full_gradients, 4 * (128 + 64 + 1024));
  EXPECT_EQ(plans[0].copies, 0);
}

// One micro-batch per step, in fp32.
TEST(MemoryPlan, OfReplicasWhoseSumsTakeThePlaceOfTheGradients) {
  const PlannedSharding sharding{.ranks = 2, .group = 1, .full_for_the_step = true, .sums_in_place = true};
  const std::vector<MemoryPlan> plans = plan_memory(kUnits, sharding);
  EXPECT_EQ(plans[0].gradients, 4 * (128 + 64 + 1024));
  EXPECT_EQ(plans[0].full_gradients, 0);
}

TEST(MemoryPlan, OfSixteenBitsAndMuon) {
  const std::vector<MemoryPlan> plans =
      plan_memory(kUnits, {.ranks = 2, .group = 2, .param_bytes = 2, .reduce_bytes = 2, .muon = true});
  EXPECT_EQ(plans[0].parameters, (4 + 2) * (64 + 64 + 512));
  EXPECT_EQ(plans[0].optimizer, 4 * (2 * 36 + 64 + 512));
  EXPECT_EQ(plans[0].full_gradients, 2 * 3 * 1024);
  EXPECT_EQ(plans[0].copies, 2 * 2 * 1024);
}

TEST(MemoryPlan, OfMomentsInFewerBits) {
  const auto optimizer_bytes = [](const char* state, bool muon) {
    RunOptions options;
    options.ranks = 2;
    options.optimizer = muon ? "muon" : "adamw";
    options.optimizer_state = state;
    return plan_memory(kUnits, planned_sharding(options))[0].optimizer;
  };
  EXPECT_EQ(optimizer_bytes("fp32", false), 2 * 4 * (36 + 64 + 512));
  EXPECT_EQ(optimizer_bytes("bf16", false), 2 * 2 * (36 + 64 + 512));
  EXPECT_EQ(optimizer_bytes("8bit", false), 2 * (36 + 64 + 512) + 2 * 4 * (1 + 1 + 8));
  EXPECT_EQ(optimizer_bytes("8bit", true), 2 * 36 + 2 * 4 * 1 + 4 * (64 + 512));
}

// Of 2 ranks each: a unit's slices are 64, 64 and 256, and one of the other host's passes through.
TEST(MemoryPlan, OfTwoHosts) {
  const PlannedSharding whole{.ranks = 4, .hosts = 2, .group = 4};
  const std::vector<MemoryPlan> plans = plan_memory(kUnits, whole);
  ASSERT_EQ(plans.size(), 2u);
  EXPECT_EQ(plans[0].parameters, 4 * (64 + 64 + 256));
  EXPECT_EQ(plans[0].full_parameters, 4 * 2 * 1024);  // the host's buffers
  EXPECT_EQ(plans[1].full_parameters, 0);
  EXPECT_EQ(plans[0].full_gradients, 3 * 4 * (1024 + 256));
  PlannedSharding kept = whole;
  kept.shares_buffers = false;
  EXPECT_EQ(plan_memory(kUnits, kept)[1].full_parameters, 4 * ((256 + 256 + 1024) / 2 - (64 + 64 + 256)));
  PlannedSharding of_a_host = whole;
  of_a_host.group = 2;
  EXPECT_EQ(plan_memory(kUnits, of_a_host)[0].full_parameters, 0);
}

TEST(MemoryPlan, OfModelsInFiles) {
  // On two ranks the larger ones have shards of 512, and are 1024 when they are full.
  const std::vector<PlannedUnit> units = {{{64}}, {{1000}}, {{1000}}, {{1000}}};
  const PlannedSharding plain{.ranks = 2, .group = 2};
  const MemoryPlan in_memory = plan_memory(units, plain)[0];
  EXPECT_EQ(in_memory.offloaded, 0);
  EXPECT_EQ(in_memory.resident, 0);
  PlannedSharding files = plain;
  files.offloads_state = true;
  const MemoryPlan optimizer = plan_memory(units, files)[0];
  EXPECT_EQ(optimizer.offloaded, optimizer.optimizer);
  EXPECT_EQ(optimizer.resident, 2 * 8 * 512);
  EXPECT_EQ(optimizer.total(), in_memory.total() - optimizer.optimizer + 2 * 8 * 512);
  files.offloads_shards = true;
  const std::vector<MemoryPlan> all = plan_memory(units, files);
  EXPECT_EQ(all[0].offloaded, in_memory.parameters + in_memory.gradients + in_memory.optimizer);
  EXPECT_EQ(all[0].resident, 2 * (4 + 4 + 8) * 512 + 2 * 4 * 1024);
  EXPECT_EQ(all[1].resident, 2 * (4 * 512 + 4 * 512 + 8 * 488));
  // Sums that replicas read stay in memory, and a unit that stays full stays resident.
  files.group = 1;
  files.shares_buffers = false;
  const MemoryPlan replica = plan_memory(units, files)[1];
  EXPECT_EQ(replica.offloaded, replica.parameters + replica.optimizer);
  EXPECT_EQ(replica.resident, 2 * (4 * 1024 + 8 * 1000) + 4 * (128 + 3 * 1024));
}

// Blocks are counted together.
TEST(MemoryPlan, OfEqualUnitsIsThatOfEach) {
  const PlannedSharding sharding{.ranks = 3, .group = 3};
  const PlannedUnit first = {{36}, {64, true}}, block = {{1000, true}, {70}};
  const auto one = plan_memory({first, block}, sharding), three = plan_memory({first, block, block, block}, sharding);
  for (size_t rank = 0; rank < 3; ++rank) {
    const int64_t root = plan_memory({first}, sharding)[rank].optimizer;
    EXPECT_EQ(three[rank].optimizer - root, 3 * (one[rank].optimizer - root));
  }
}

TEST(MemoryPlan, AsksStrategiesForTheirGroups) {
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
  options.micro_batches = 2;
  EXPECT_FALSE(planned_sharding(options).sums_in_place);
  options.micro_batches = 1;
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
    for (const PlannedUnit& unit : parts.units) numel += numel_of(unit);
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
