// Plans of runs on GPUs that hold their state or activations in the memory of the host, beside such runs on the tests'
// devices. The suites of tests/apps/planning are compared there too.
#include <fmt/format.h>
#include <fsdp/fsdp.h>
#include <gtest/gtest.h>

#include "apps/planning/held_memory.h"
#include "planning/planned_activations.h"
#include "support/run_ranks.h"

namespace trainer {
namespace {

using fsdp::testing::run_rank_processes;

class PlansOnDevices : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, PlansOnDevices, ::testing::Values(1, 2), ::testing::PrintToStringParamName());

TEST_P(PlansOnDevices, OfShardsOnTheHost) {
  run_rank_processes(GetParam(), [](fsdp::World& world) {
    ASSERT_TRUE(on_gpus(world));
    for (const char* strategy : kStrategies) {
      for (const char* dtype : kDtypes) {
        SCOPED_TRACE(fmt::format("{}, {}", strategy, dtype));
        RunOptions options = small_run(world);
        options.strategy = strategy;
        options.param_dtype = dtype;
        options.optimizer_state = strategy == std::string("full-shard") ? "8bit" : "fp32";
        options.cpu_offload = true;
        expect_planned(world, options);
      }
    }
  });
}

TEST_P(PlansOnDevices, OfActivationsOnTheHost) {
  run_rank_processes(GetParam(), [](fsdp::World& world) {
    RunOptions options = small_run(world);
    options.offload_activations = true;
    options.batch = 4;
    for (const models::Family family : {models::Family::Gpt2, models::Family::Llama}) {
      options.model = {.family = family, .vocabulary = 300, .context = 128, .width = 128, .layers = 3, .heads = 4};
      for (const char* dtype : kDtypes) {
        for (const char* recomputed : {"none", "all"}) {
          SCOPED_TRACE(fmt::format("{}, {}, {} recomputed", models::name_of(family), dtype, recomputed));
          options.param_dtype = dtype;
          options.activation_checkpoint = recomputed;
          const auto model = model_of(world, options);
          fsdp::Options sharding = sharding_of(options);
          sharding.offload_directory.clear();
          auto sharded = fsdp::shard(*model, world, sharding);
          model->loss(tokens_of(world, options), tokens_of(world, options)).backward();
          const fsdp::MemoryReport report = sharded.memory();
          const PlannedActivations planned = planned_activations(options, true);
          EXPECT_EQ(planned.in_files, static_cast<double>(report.peak_offloaded_activation_bytes));
          EXPECT_EQ(planned.in_memory, static_cast<double>(report.peak_activation_bytes));
        }
      }
    }
  });
}

}  // namespace
}  // namespace trainer
