// The arithmetic alone; tests/apps/planning/planned_memory_test.cpp compares it with runs.
#include <fsdp/error.h>
#include <fsdp/plan.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "support/message_of.h"

namespace fsdp::plan {
namespace {

using fsdp::testing::message_of;
using ::testing::HasSubstr;

// Three units of 100, 64 and 1000 elements; padded 128, 64 and 1024.
const std::vector<Unit> kUnits = {{{36}, {64, true}}, {{64, true}}, {{1000, true}}};

TEST(StateMemory, OfOneRankAlone) {
  const std::vector<StateMemory> plans = state_memory(kUnits, {});
  ASSERT_EQ(plans.size(), 1u);
  EXPECT_EQ(plans[0].parameters, 4 * (128 + 64 + 1024));
  EXPECT_EQ(plans[0].gradients, 4 * 1164);
  EXPECT_EQ(plans[0].optimizer, 8 * 1164);
  EXPECT_EQ(plans[0].full_parameters + plans[0].full_gradients + plans[0].copies, 0);
}

TEST(StateMemory, OfFullShard) {
  const std::vector<StateMemory> plans = state_memory(kUnits, {.ranks = 2, .group = 2});
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
TEST(StateMemory, OfGpus) {
  for (const int64_t hosts : {1, 2}) {
    const std::vector<StateMemory> plans =
        state_memory(kUnits, {.ranks = 2, .hosts = hosts, .group = 2, .on_gpus = true});
    EXPECT_EQ(plans[0].full_parameters, 4 * 2 * 1024);
    EXPECT_EQ(plans[0].full_gradients, 4 * 3 * 1024);
    EXPECT_EQ(plans[0].copies, 0);
  }
}

// One GPU alone casts units into buffers where they are full only while they are used; elsewhere a copy stays.
TEST(StateMemory, OfOneGpuInSixteenBits) {
  const StateMemory casts = state_memory(kUnits, {.param_bytes = 2, .on_gpus = true})[0];
  EXPECT_EQ(casts.parameters, 4 * (128 + 64 + 1024));
  EXPECT_EQ(casts.full_parameters, 2 * 2 * 1024);
  const StateMemory copy = state_memory(kUnits, {.param_bytes = 2, .shares_buffers = false, .on_gpus = true})[0];
  EXPECT_EQ(copy.parameters, 6 * (128 + 64 + 1024));
  EXPECT_EQ(copy.full_parameters, 0);
}

TEST(StateMemory, OfReplicasOnGpus) {
  const std::vector<StateMemory> plans =
      state_memory(kUnits, {.ranks = 2, .group = 1, .full_for_the_step = true, .on_gpus = true});
  EXPECT_EQ(plans[0].full_parameters, 0);
  EXPECT_EQ(plans[0].full_gradients, 4 * 3 * 1024);
}

// The GPU has full units and gradients.
TEST(StateMemory, OfShardsOnTheHostBesideGpus) {
  for (const int64_t ranks : {1, 2}) {
    const std::vector<StateMemory> plans =
        state_memory(kUnits, {.ranks = ranks, .group = ranks, .on_gpus = true, .shards_on_host = true});
    EXPECT_EQ(plans[0].on_host, plans[0].parameters + plans[0].gradients + plans[0].optimizer);
    EXPECT_EQ(plans[0].full_parameters, 4 * 2 * 1024);
    EXPECT_EQ(plans[0].total(), plans[0].full_parameters + plans[0].full_gradients);
  }
}

TEST(StateMemory, OfReplicas) {
  const std::vector<StateMemory> plans =
      state_memory(kUnits, {.ranks = 2, .group = 1, .full_for_the_step = true, .reduce_bytes = 2});
  EXPECT_EQ(plans[0].parameters, 4 * (128 + 128 + 1024));
  EXPECT_EQ(plans[0].gradients, 4 * (128 + 64 + 1024));
  EXPECT_EQ(plans[0].full_gradients, 2 * 3 * 1024);
  EXPECT_EQ(plans[0].copies, 0);
}

// In fp32. The gradients of further micro-batches lie beside the sums.
TEST(StateMemory, OfReplicasWhoseSumsTakeThePlaceOfTheGradients) {
  for (const bool one_micro_batch : {true, false}) {
    const Sharding sharding{
        .ranks = 2, .group = 1, .full_for_the_step = true, .sums_in_place = true, .one_micro_batch = one_micro_batch};
    const std::vector<StateMemory> plans = state_memory(kUnits, sharding);
    EXPECT_EQ(plans[0].gradients, 4 * (128 + 64 + 1024));
    EXPECT_EQ(plans[0].full_gradients, one_micro_batch ? 0 : 4 * (128 + 64 + 1024));
  }
}

TEST(StateMemory, OfSixteenBitsAndMuon) {
  const std::vector<StateMemory> plans =
      state_memory(kUnits, {.ranks = 2, .group = 2, .param_bytes = 2, .reduce_bytes = 2, .muon = true});
  EXPECT_EQ(plans[0].parameters, (4 + 2) * (64 + 64 + 512));
  EXPECT_EQ(plans[0].optimizer, 4 * (2 * 36 + 64 + 512));
  EXPECT_EQ(plans[0].full_gradients, 2 * 3 * 1024);
  EXPECT_EQ(plans[0].copies, 2 * 2 * 1024);
}

// Of 2 ranks each: a unit's slices are 64, 64 and 256, and one of the other host's passes through.
TEST(StateMemory, OfTwoHosts) {
  const Sharding whole{.ranks = 4, .hosts = 2, .group = 4};
  const std::vector<StateMemory> plans = state_memory(kUnits, whole);
  ASSERT_EQ(plans.size(), 2u);
  EXPECT_EQ(plans[0].parameters, 4 * (64 + 64 + 256));
  EXPECT_EQ(plans[0].full_parameters, 4 * 2 * 1024);  // the host's buffers
  EXPECT_EQ(plans[1].full_parameters, 0);
  EXPECT_EQ(plans[0].full_gradients, 3 * 4 * (1024 + 256));
  Sharding kept = whole;
  kept.shares_buffers = false;
  EXPECT_EQ(state_memory(kUnits, kept)[1].full_parameters, 4 * ((256 + 256 + 1024) / 2 - (64 + 64 + 256)));
  Sharding of_a_host = whole;
  of_a_host.group = 2;
  EXPECT_EQ(state_memory(kUnits, of_a_host)[0].full_parameters, 0);
}

// Groups of 2 on hosts of 3: a rank has buffers of its own, and receives the slices of all other ranks.
TEST(StateMemory, OfGroupsOnPartsOfTwoHostsIsThatOverGloo) {
  const Sharding sharding{.ranks = 6, .hosts = 2, .group = 2};
  for (const StateMemory& plan : state_memory({{{1200}}}, sharding)) {  // slices of 256
    EXPECT_EQ(plan.full_parameters, 4 * 6 * 256);
    EXPECT_EQ(plan.full_gradients, 4 * (1216 + 5 * 256));
  }
}

TEST(StateMemory, OfModelsInFiles) {
  // On two ranks the larger ones have shards of 512, and are 1024 when they are full.
  const std::vector<Unit> units = {{{64}}, {{1000}}, {{1000}}, {{1000}}};
  const Sharding plain{.ranks = 2, .group = 2};
  const StateMemory in_memory = state_memory(units, plain)[0];
  EXPECT_EQ(in_memory.offloaded, 0);
  EXPECT_EQ(in_memory.resident, 0);
  Sharding files = plain;
  files.offloads_state = true;
  const StateMemory optimizer = state_memory(units, files)[0];
  EXPECT_EQ(optimizer.offloaded, optimizer.optimizer);
  EXPECT_EQ(optimizer.resident, 2 * 8 * 512);
  EXPECT_EQ(optimizer.total(), in_memory.total() - optimizer.optimizer + 2 * 8 * 512);
  files.offloads_shards = true;
  const std::vector<StateMemory> all = state_memory(units, files);
  EXPECT_EQ(all[0].offloaded, in_memory.parameters + in_memory.gradients + in_memory.optimizer);
  EXPECT_EQ(all[0].resident, 2 * (4 + 4 + 8) * 512 + 2 * 4 * 1024);
  EXPECT_EQ(all[1].resident, 2 * (4 * 512 + 4 * 512 + 8 * 488));
  // Sums that replicas read stay in memory, and a unit that stays full stays resident.
  files.group = 1;
  files.shares_buffers = false;
  const StateMemory replica = state_memory(units, files)[1];
  EXPECT_EQ(replica.offloaded, replica.parameters + replica.optimizer);
  EXPECT_EQ(replica.resident, 2 * (4 * 1024 + 8 * 1000) + 4 * (128 + 3 * 1024));
}

// Blocks are counted together.
TEST(StateMemory, OfEqualUnitsIsThatOfEach) {
  const Sharding sharding{.ranks = 3, .group = 3};
  const Unit first = {{36}, {64, true}}, block = {{1000, true}, {70}};
  const auto one = state_memory({first, block}, sharding), three = state_memory({first, block, block, block}, sharding);
  for (size_t rank = 0; rank < 3; ++rank) {
    const int64_t root = state_memory({first}, sharding)[rank].optimizer;
    EXPECT_EQ(three[rank].optimizer - root, 3 * (one[rank].optimizer - root));
  }
}

std::string refusal(const std::vector<Unit>& units, const Sharding& sharding) {
  return message_of<Error>([&] { state_memory(units, sharding); });
}

TEST(StateMemory, RefusesNonsense) {
  EXPECT_THAT(refusal(kUnits, {.ranks = 0}), HasSubstr("found 0 ranks, expected 1 to 1048576"));
  EXPECT_THAT(refusal(kUnits, {.ranks = 1'000'000'000}), HasSubstr("expected 1 to 1048576"));
  EXPECT_THAT(refusal(kUnits, {.ranks = 8, .hosts = 3}), HasSubstr("found 3 hosts for 8 ranks"));
  EXPECT_THAT(refusal(kUnits, {.ranks = 8, .group = 3}), HasSubstr("expected a divisor of 8"));
  EXPECT_THAT(refusal(kUnits, {.param_bytes = 0}), HasSubstr("param_bytes 0"));
  EXPECT_THAT(refusal(kUnits, {.buffers = 0}), HasSubstr("found 0 buffers"));
  EXPECT_THAT(refusal(kUnits, {.shards_on_host = true}), HasSubstr("expected on_gpus"));
  EXPECT_THAT(refusal({}, {}), HasSubstr("found no units"));
  EXPECT_THAT(refusal({{{-1}}}, {}), HasSubstr("found a parameter of -1 elements in unit 0"));
  EXPECT_THAT(refusal({{{1'000'000'000'000'000'000}}}, {}), HasSubstr("may not fit in 64 bits"));
  EXPECT_THROW(numel_of({{INT64_MAX}, {1}}), Error);
  EXPECT_THROW(MomentBytes{}.of(INT64_MAX), Error);
}

TEST(StateMemory, OfAThousandTrillionsIsRight) {
  const int64_t numel = 1'000'000'000'000'000;  // 10^15, a multiple of 64
  const StateMemory plan = state_memory({{{numel}}}, {.ranks = 1024, .group = 1024})[1023];
  const int64_t shard = 976'562'500'032;  // numel / 1024, rounded up to a multiple of 64
  EXPECT_EQ(plan.parameters, 4 * shard);
  EXPECT_EQ(plan.optimizer, 8 * (numel - 1023 * shard));
}

template <typename Value>
Value one_of(const std::vector<Value>& values, std::mt19937& random) {
  return values[random() % values.size()];
}

// Each input is refused, or has sums that no wrapped number has.
TEST(StateMemory, OfRandomInputsIsRefusedOrRight) {
  const std::vector<int64_t> numels = {-1,        0, 1, 63, 64, 65, 1'000'000'007, int64_t{1} << 46, int64_t{1} << 52,
                                       INT64_MAX, 0, 1, 99};
  const std::vector<int64_t> counts = {INT64_MIN, -1, 0, 1, 1, 2, 2, 3, 4, 4, 6, 8, 8, 64, 1 << 12, INT64_MAX};
  const std::vector<int64_t> bytes = {0, 1, 2, 2, 4, 4, 8, 100};
  std::mt19937 random(1);
  int planned = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::vector<Unit> units(random() % 4);
    for (Unit& unit : units) unit.assign(random() % 3, {one_of(numels, random), random() % 2 == 0, random() % 2 == 0});
    const auto flip = [&] { return random() % 2 == 0; };
    const Sharding sharding{.ranks = one_of(counts, random),
                            .hosts = one_of(counts, random),
                            .group = one_of(counts, random),
                            .full_for_the_step = flip(),
                            .sums_in_place = flip(),
                            .one_micro_batch = flip(),
                            .param_bytes = one_of(bytes, random),
                            .reduce_bytes = one_of(bytes, random),
                            .buffers = one_of(counts, random),
                            .shares_buffers = flip(),
                            .on_gpus = flip(),
                            .shards_on_host = flip(),
                            .muon = flip(),
                            .moment = {one_of(bytes, random), one_of(bytes, random)},
                            .offloads_state = flip(),
                            .offloads_shards = flip(),
                            .copies_for_saves = flip(),
                            .first_unit_stays_open = flip()};
    try {
      const std::vector<StateMemory> plans = state_memory(units, sharding);
      ++planned;
      ASSERT_EQ(std::ssize(plans), sharding.ranks / sharding.hosts);
      double numel = 0;
      for (const Unit& unit : units) numel += static_cast<double>(numel_of(unit));
      for (const StateMemory& plan : plans) {
        ASSERT_GE(static_cast<double>(plan.parameters) * static_cast<double>(sharding.group), 4 * numel);
        for (const int64_t part : {plan.gradients, plan.optimizer, plan.full_parameters, plan.full_gradients,
                                   plan.offloaded, plan.resident, plan.on_host, plan.late, plan.copies, plan.save_copy})
          ASSERT_GE(part, 0);
      }
    } catch (const Error& error) {
      ASSERT_THAT(error.what(), HasSubstr("xpected"));
    }
  }
  EXPECT_GT(planned, 100);
}

// Equal layers are counted once, whatever lies between them.
TEST(StateMemory, OfAHundredThousandRanksIsPlannedAtOnce) {
  std::vector<Unit> units(100, Unit(12, {.numel = 16'777'216}));
  units.front() = {{.numel = 500'000'000}};
  const StateMemory plan = state_memory(units, sharding_of("full-shard", 100'000, 12'500))[7];
  EXPECT_EQ(plan.optimizer, 8 * (99 * 2048 + 5056));
}

}  // namespace
}  // namespace fsdp::plan
