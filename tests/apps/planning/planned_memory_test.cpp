// A run holds the memory that was planned, to the byte, on CPUs and on the tests' devices.
#include <fsdp/fsdp.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "apps/planning/held_memory.h"
#include "support/run_ranks.h"

namespace trainer {
namespace {

using fsdp::testing::run_rank_processes;

class PlannedMemory : public ::testing::TestWithParam<int> {};

TEST_P(PlannedMemory, IsHeldByEveryStrategyAndDtype) {
  run_rank_processes(GetParam(), [](fsdp::World& world) {
    for (const char* strategy : kStrategies) {
      for (const char* dtype : kDtypes) {
        for (const char* reduce_dtype : kDtypes) {
          SCOPED_TRACE(std::string(strategy) + ", parameters " + dtype + ", reductions " + reduce_dtype);
          RunOptions options = small_run(world);
          options.strategy = strategy;
          options.param_dtype = dtype;
          options.reduce_dtype = reduce_dtype;
          expect_planned(world, options);
        }
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, PlannedMemory, ::testing::Values(1, 2), ::testing::PrintToStringParamName());

TEST(PlannedMemoryOf, GroupsOfRanks) {
  run_rank_processes(4, [](fsdp::World& world) {
    for (const char* strategy : {"hybrid-shard", "hybrid-shard-grad-op", "shard-optimizer"}) {
      SCOPED_TRACE(strategy);
      RunOptions options = small_run(world);
      options.strategy = strategy;
      options.shard_group_size = 2;
      expect_planned(world, options);
    }
  });
}

TEST(PlannedMemoryOf, StepsOfOneMicroBatch) {
  run_rank_processes(2, [](fsdp::World& world) {
    for (const char* strategy : kStrategies) {
      SCOPED_TRACE(strategy);
      RunOptions options = small_run(world);
      options.strategy = strategy;
      options.micro_batches = 1;
      expect_planned(world, options);
    }
  });
}

TEST(PlannedMemoryOf, Muon) {
  run_rank_processes(2, [](fsdp::World& world) {
    RunOptions options = small_run(world);
    options.optimizer = "muon";
    expect_planned(world, options);
  });
}

TEST(PlannedMemoryOf, EveryOptimizerState) {
  run_rank_processes(2, [](fsdp::World& world) {
    for (const char* strategy : {"full-shard", "no-shard"}) {
      for (const char* optimizer : kOptimizers) {
        for (const char* state : kOptimizerStates) {
          if (on_gpus(world) && std::string(state) == "8bit") continue;  // refused
          SCOPED_TRACE(std::string(strategy) + ", " + optimizer + ", " + state);
          RunOptions options = small_run(world);
          options.strategy = strategy;
          options.optimizer = optimizer;
          options.optimizer_state = state;
          expect_planned(world, options);
        }
      }
    }
  });
}

TEST(PlannedMemoryOf, FrozenParametersAndAdapters) {
  run_rank_processes(2, [](fsdp::World& world) {
    for (const char* strategy : {"full-shard", "shard-grad-op", "shard-optimizer", "no-shard"}) {
      SCOPED_TRACE(strategy);
      RunOptions options = small_run(world);
      options.strategy = strategy;
      options.freeze = "transformer.h.1,*.mlp.*";
      expect_planned(world, options);
      options.freeze = "";
      options.model.lora = models::Lora{.rank = 3, .targets = {"c_attn", "mlp.c_proj"}};
      expect_planned(world, options);
    }
  });
}

TEST(PlannedMemoryOf, ModelsOfFewUnits) {
  run_rank_processes(2, [](fsdp::World& world) {
    for (int64_t layers : {1, 2}) {
      SCOPED_TRACE(layers);
      RunOptions options = small_run(world);
      options.model.layers = layers;
      expect_planned(world, options);
    }
  });
}

TEST(PlannedMemoryOf, UnitsOfSeveralLayers) {
  run_rank_processes(2, [](fsdp::World& world) {
    for (const char* strategy : kStrategies) {
      for (int64_t layers : {2, 3, 9}) {
        SCOPED_TRACE(testing::Message() << strategy << ", " << layers << " layers");
        RunOptions options = small_run(world);
        options.strategy = strategy;
        options.layers_per_unit = layers;
        expect_planned(world, options);
      }
    }
  });
}

}  // namespace
}  // namespace trainer
