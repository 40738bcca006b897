// A run on a mesh holds what was planned: state and buffers to the byte, and activations within a hundredth.
#include <fsdp/fsdp.h>
#include <gtest/gtest.h>

#include <string>

#include "apps/planning/mesh_run.h"
#include "planning/planned_activations.h"
#include "support/run_ranks.h"

namespace trainer {
namespace {

using fsdp::testing::run_rank_processes;

TEST(PlannedMeshRun, OfAPipeline) {
  run_rank_processes(2, [](fsdp::World& world) {
    for (const char* schedule : {"one-at-a-time", "all-forward-all-backward", "one-forward-one-backward"}) {
      SCOPED_TRACE(schedule);
      RunOptions options = small_mesh_run(2, 2, 1);
      options.pipeline_schedule = schedule;
      expect_planned_mesh(world, options);
    }
  });
}

TEST(PlannedMeshRun, OfSeveralStagesPerRank) {
  run_rank_processes(2, [](fsdp::World& world) {
    RunOptions options = small_mesh_run(2, 2, 1);
    options.pipeline_schedule = "interleaved";
    options.stages_per_rank = 2;
    expect_planned_mesh(world, options);
  });
}

TEST(PlannedMeshRun, OfBothFamiliesUntiedAndWithDropout) {
  run_rank_processes(2, [](fsdp::World& world) {
    RunOptions options = small_mesh_run(2, 2, 1);
    options.model.tied_embeddings = false;
    options.model.embedding_dropout = options.model.residual_dropout = options.model.attention_dropout = 0.1;
    expect_planned_mesh(world, options);
    options = small_mesh_run(2, 2, 1);
    options.model.family = models::Family::Llama;
    options.model.key_value_heads = 2;
    options.model.mlp_width = 160;
    expect_planned_mesh(world, options);
  });
}

// The input of a stage's first layer counts from its first use of a parameter on: not if the layer runs again.
TEST(PlannedMeshRun, OfRecomputedLayers) {
  run_rank_processes(2, [](fsdp::World& world) {
    for (const char* recomputed : {"all", "selective", "2"}) {
      SCOPED_TRACE(recomputed);
      RunOptions options = small_mesh_run(2, 2, 1);
      options.activation_checkpoint = recomputed;
      expect_planned_mesh(world, options, message_bytes(options));
    }
  });
}

TEST(PlannedMeshRun, OfDividedLayers) {
  run_rank_processes(2, [](fsdp::World& world) {
    for (const models::Family family : {models::Family::Gpt2, models::Family::Llama}) {
      for (const bool slices : {false, true}) {
        SCOPED_TRACE(std::string(models::name_of(family)) + (slices ? ", slices" : ""));
        RunOptions options = small_mesh_run(2, 1, 2);
        options.model.family = family;
        if (family == models::Family::Llama) options.model.mlp_width = 160;
        options.sequence_parallel = slices;
        expect_planned_mesh(world, options);
      }
    }
  });
}

TEST(PlannedMeshRun, OfShardedStages) {
  run_rank_processes(4, [](fsdp::World& world) {
    for (const char* strategy : kStrategies) {
      SCOPED_TRACE(strategy);
      RunOptions options = small_mesh_run(4, 2, 1);
      options.strategy = strategy;
      expect_planned_mesh(world, options);
    }
  });
}

TEST(PlannedMeshRun, OfShardedStagesOfOtherModels) {
  run_rank_processes(4, [](fsdp::World& world) {
    RunOptions options = small_mesh_run(4, 2, 1);
    options.model.tied_embeddings = false;
    {
      SCOPED_TRACE("untied");
      expect_planned_mesh(world, options);
    }
    options.model.layers = 8;
    {
      SCOPED_TRACE("8 layers");
      expect_planned_mesh(world, options);
    }
    options.pipeline_schedule = "interleaved";
    options.stages_per_rank = 2;
    {
      SCOPED_TRACE("interleaved");
      expect_planned_mesh(world, options);
    }
  });
}

// Units end where a stage does.
TEST(PlannedMeshRun, OfUnitsOfSeveralLayers) {
  run_rank_processes(4, [](fsdp::World& world) {
    RunOptions options = small_mesh_run(4, 2, 1);
    options.model.layers = 8;
    for (int64_t layers : {2, 3, 8}) {
      SCOPED_TRACE(layers);
      options.layers_per_unit = layers;
      expect_planned_mesh(world, options);
    }
    options.pipeline_schedule = "interleaved";
    options.stages_per_rank = 2;
    {
      SCOPED_TRACE("interleaved");
      options.model.layers = 16;
      options.layers_per_unit = 2;
      expect_planned_mesh(world, options);
    }
    {
      SCOPED_TRACE("a unit for each stage");
      options.model.layers = 8;
      expect_planned_mesh(world, options, 0, /*again=*/1);
    }
    options = small_mesh_run(4, 1, 2);
    options.layers_per_unit = 3;
    expect_planned_mesh(world, options);
  });
}

TEST(PlannedMeshRun, OfDividedStages) {
  run_rank_processes(4, [](fsdp::World& world) {
    for (const bool slices : {false, true}) {
      RunOptions options = small_mesh_run(4, 2, 2);
      options.sequence_parallel = slices;
      expect_planned_mesh(world, options);
    }
  });
}

TEST(PlannedMeshRun, OfShardedDividedLayers) {
  run_rank_processes(4, [](fsdp::World& world) {
    RunOptions options = small_mesh_run(4, 1, 2);
    expect_planned_mesh(world, options);
    options.param_dtype = "bf16";
    expect_planned_mesh(world, options);
  });
}

TEST(PlannedMeshRun, OfSeveralPartsOfARank) {
  run_rank_processes(2, [](fsdp::World& world) {
    for (const models::Family family : {models::Family::Gpt2, models::Family::Llama}) {
      for (const bool slices : {false, true}) {
        SCOPED_TRACE(std::string(models::name_of(family)) + (slices ? ", slices" : ""));
        RunOptions options = small_mesh_run(2, 1, 2);
        options.model.family = family;
        if (family == models::Family::Llama) options.model.mlp_width = 160;
        options.tensor_parts = 4;
        options.sequence_parallel = slices;
        expect_planned_mesh(world, options);
      }
    }
  });
}

// The pieces of a model that is not divided keep what the model keeps.
TEST(PlannedStages, TogetherKeepAsMuchAsTheModel) {
  for (const models::Family family : {models::Family::Gpt2, models::Family::Llama}) {
    for (const char* recomputed : {"none", "all", "selective", "2"}) {
      SCOPED_TRACE(std::string(models::name_of(family)) + ", " + recomputed);
      RunOptions options = small_mesh_run(1, 1, 1);
      options.model.family = family;
      options.activation_checkpoint = recomputed;
      EXPECT_EQ(tensors_of_rank({.options = options}, planned_mesh(options), 0).activations,
                planned_activations(options, false).in_memory);
    }
  }
}

}  // namespace
}  // namespace trainer
