// A run on several hosts holds the memory that was planned.
#include <fsdp/fsdp.h>
#include <gtest/gtest.h>

#include <cstdint>

#include "apps/planning/held_memory.h"
#include "support/run_ranks.h"
#include "support/scratch_directory.h"

namespace trainer {
namespace {

// Gradients on their way are told within the padding of their slices: 64 elements for each rank and unit.
TEST(PlannedMemoryOf, SeveralHosts) {
  const fsdp::testing::Hosts hosts{2, 2};
  fsdp::testing::run_on_hosts(hosts, [](fsdp::World& world) {
    for (const char* strategy : kStrategies) {
      SCOPED_TRACE(strategy);
      RunOptions options = small_run(world);
      options.strategy = strategy;
      const fsdp::MemoryReport found = held(world, options);
      const auto plans = fsdp::plan::state_memory(parts_of(options.model).units, planned_sharding(options, 2));
      const fsdp::plan::StateMemory& planned = plans.at(world.local_rank());
      EXPECT_EQ(found.parameter_bytes, planned.parameters);
      EXPECT_EQ(found.full_parameter_bytes, planned.full_parameters);
      EXPECT_NEAR(found.full_gradient_bytes, planned.full_gradients, 4 * 64 * 4 * 5);
    }
  });
}

TEST(PlannedMemoryOf, SeveralHostsWithFiles) {
  const fsdp::testing::ScratchDirectory scratch;
  fsdp::testing::run_on_hosts({.hosts = 2, .ranks = 2}, [&](fsdp::World& world) {
    for (const char* strategy : kStrategies) {
      SCOPED_TRACE(strategy);
      RunOptions options = small_run(world);
      options.strategy = strategy;
      options.offload = "all";
      options.offload_directory = scratch.path();
      const auto plans = fsdp::plan::state_memory(parts_of(options.model).units, planned_sharding(options, 2));
      const int64_t found = held(world, options).offloaded_bytes;
      // The last slice of a unit may have padding.
      if (world.rank() < 2) {
        EXPECT_EQ(found, plans.at(world.rank()).offloaded);
      }
    }
  });
}

}  // namespace
}  // namespace trainer
