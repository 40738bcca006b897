// A run on CPUs holds the memory that was planned where GPUs have no such choice: state and activations in files,
// copies for saves, machines of CPUs, and gathers that copy.
#include <fmt/format.h>
#include <fsdp/fsdp.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "apps/planning/held_memory.h"
#include "planning/plan_numbers.h"
#include "planning/planned_activations.h"
#include "support/run_ranks.h"
#include "support/scratch_directory.h"
#include "support/variable.h"

namespace trainer {
namespace {

using fsdp::testing::run_ranks;

class PlannedMemoryInFiles : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, PlannedMemoryInFiles, ::testing::Values(1, 2), ::testing::PrintToStringParamName());

TEST_P(PlannedMemoryInFiles, IsHeldWhereTheModelLiesInFiles) {
  const fsdp::testing::ScratchDirectory scratch;
  run_ranks(GetParam(), [&](fsdp::World& world) {
    for (const char* strategy : {"full-shard", "no-shard"}) {
      for (const char* dtype : {"fp32", "bf16"}) {
        for (const char* offload : {"optimizer", "all"}) {
          SCOPED_TRACE(std::string(strategy) + ", parameters " + dtype + ", offload " + offload);
          RunOptions options = small_run(world);
          options.strategy = strategy;
          options.param_dtype = dtype;
          options.offload = offload;
          options.offload_directory = scratch.path();
          expect_planned(world, options);
        }
      }
    }
  });
}

// Each tensor of a copy begins at a multiple of 64 bytes, and all together take whole pages.
TEST(PlannedMemoryOf, CopiesForSaves) {
  const fsdp::testing::ScratchDirectory scratch;
  run_ranks(2, [&](fsdp::World& world) {
    for (const char* strategy : {"full-shard", "no-shard"}) {
      RunOptions options = small_run(world);
      options.strategy = strategy;
      options.save_every = 1;
      const auto model = models::make_model(options.model);
      auto sharded = fsdp::shard(*model, world, sharding_of(options));
      fsdp::AdamW optimizer(sharded);
      fsdp::save_checkpoint_async(scratch.path() / "saved", {.model = &sharded, .optimizer = &optimizer}).wait();
      const auto plans = fsdp::plan::state_memory(parts_of(options.model).units, planned_sharding(options));
      const int64_t found = sharded.memory().save_copy_bytes, planned = plans.at(world.rank()).save_copy;
      const auto tensors = static_cast<int64_t>(3 * sharded.parameters().size());
      EXPECT_EQ(planned > 0, std::string(strategy) == "full-shard" || world.rank() == 0);
      EXPECT_GE(found, planned);
      EXPECT_LE(found, planned + 64 * tensors + 4096);
      for (const auto off : {&RunOptions::save_sync, &RunOptions::no_save}) {
        RunOptions others = options;
        others.*off = true;
        EXPECT_EQ(fsdp::plan::state_memory(parts_of(options.model).units, planned_sharding(others))
                      .at(world.rank())
                      .save_copy,
                  0);
      }
    }
  });
}

// fsdp-plan with a machine of CPUs.
TEST(PlannedMemoryOf, MachinesOfCpus) {
  run_ranks(2, [](fsdp::World& world) {
    for (const char* strategy : kStrategies) {
      for (const char* dtype : {"fp32", "bf16"}) {
        SCOPED_TRACE(std::string(strategy) + ", parameters " + dtype);
        RunOptions options = small_run(world);
        options.strategy = strategy;
        options.param_dtype = dtype;
        const fsdp::MemoryReport found = held(world, options);
        PlanTarget target;
        target.hardware.kind = fsdp::plan::DeviceKind::Cpu;
        const auto planned = plan_numbers(target, options).memory;
        const auto most = [&](int64_t bytes) {
          torch::Tensor value = torch::tensor({bytes}, torch::kInt64);
          world.all_reduce_(value, fsdp::ReduceOp::Max);
          return value.item<double>();
        };
        // The plan is that of the rank that holds most in all, which has the most of each part where shards are alike.
        EXPECT_EQ(planned.parameters, most(found.parameter_bytes));
        EXPECT_EQ(planned.full_parameters, most(found.full_parameter_bytes));
        EXPECT_EQ(planned.full_gradients, most(found.full_gradient_bytes));
        EXPECT_LE(planned.gradients, most(found.gradient_bytes));
        EXPECT_EQ(planned.parameters + planned.gradients + planned.optimizer + planned.full_parameters +
                      planned.full_gradients,
                  most(found.total_bytes()));
      }
    }
  });
}

TEST(PlannedMemoryOf, GathersThatCopy) {
  const fsdp::testing::CopyingGathers copying;
  run_ranks(2, [](fsdp::World& world) {
    for (const char* strategy : kStrategies) {
      SCOPED_TRACE(strategy);
      RunOptions options = small_run(world);
      options.strategy = strategy;
      expect_planned(world, options, true);
    }
  });
}

// The most bytes of activations in files at once, of tensors of at least 64 KiB, and the most in memory.
TEST(ActivationsOfRunsWith, Offload) {
  const fsdp::testing::ScratchDirectory scratch;
  run_ranks(2, [&](fsdp::World& world) {
    RunOptions options = small_run(world);
    options.offload_activations = true;
    options.offload_directory = scratch.path().string();
    options.batch = 4;
    for (const models::Family family : {models::Family::Gpt2, models::Family::Llama}) {
      options.model = {.family = family, .vocabulary = 300, .context = 128, .width = 128, .layers = 3, .heads = 4};
      for (const char* dtype : {"fp32", "bf16"}) {
        for (const char* recomputed : {"none", "all"}) {
          SCOPED_TRACE(fmt::format("{}, {}, {} recomputed", models::name_of(family), dtype, recomputed));
          options.param_dtype = dtype;
          options.activation_checkpoint = recomputed;
          const auto model = model_of(world, options);
          auto sharded = fsdp::shard(*model, world, sharding_of(options));
          model->loss(tokens_of(world, options), tokens_of(world, options)).backward();
          const fsdp::MemoryReport report = sharded.memory();
          const PlannedActivations planned = planned_activations(options, false);
          EXPECT_EQ(planned.in_files, static_cast<double>(report.peak_offloaded_activation_bytes));
          EXPECT_EQ(planned.in_memory, static_cast<double>(report.peak_activation_bytes));
        }
      }
    }
  });
}

}  // namespace
}  // namespace trainer
