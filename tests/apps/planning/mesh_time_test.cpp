// Times of plans on a mesh.
#include "planning/mesh_time.h"

#include <gtest/gtest.h>

#include <cmath>

#include "models/model_sizes.h"
#include "planning/hardware_file.h"
#include "planning/plan_numbers.h"
#include "planning/planned_mesh.h"

namespace trainer {
namespace {

RunOptions mesh_options(const char* model, int64_t ranks, int64_t pipeline, int64_t tensor) {
  RunOptions options;
  options.model = models::config_of_size(model).value();
  options.ranks = ranks;
  options.pipeline_parallel = pipeline;
  options.tensor_parallel = tensor;
  options.batch = 1;
  options.micro_batches = 8;
  options.param_dtype = "bf16";
  options.dry_run = true;
  return options;
}

PlanTarget mesh_target(int64_t ranks) {
  PlanTarget target{.hardware = hardware_of("h100"), .hosts = std::max<int64_t>(1, ranks / 8)};
  target.memory = target.hardware.memory;
  return target;
}

// A mesh of data ranks alone is the same run.
TEST(MeshTime, IsThatOfARunWithoutAMesh) {
  for (const char* strategy : {"full-shard", "shard-grad-op"}) {
    for (const int64_t micro_batches : {1, 4}) {
      RunOptions options = mesh_options("llama2-7b", 32, 1, 1);
      options.strategy = strategy;
      options.micro_batches = micro_batches;
      const PlanTarget target = mesh_target(32);
      const fsdp::plan::Mesh mesh = planned_mesh(options);
      const fsdp::plan::MeshPlaces places(mesh.sizes, target.hosts);
      const double on_mesh = mesh_seconds(mesh_step_of(options, mesh, places), places,
                                          fsdp::plan::sharded_engine("libfsdp"), target.hardware)
                                 .step.step;
      EXPECT_NEAR(on_mesh / plan_numbers(target, options).time->step, 1, 0.01) << strategy << " " << micro_batches;
    }
  }
}

TEST(MeshTime, EveryScheduleAndModelHasOne) {
  for (const char* model : {"gpt2-xl", "bert-large", "llama3-8b", "llama2-70b"}) {
    for (const char* schedule : kPipelineSchedules) {
      RunOptions options = mesh_options(model, 32, 4, 2);
      options.pipeline_schedule = schedule;
      options.sequence_parallel = true;
      options.model.context = 512;
      if (std::string_view(schedule) == "interleaved") options.stages_per_rank = 2;
      const PlannedTime time = plan_numbers(mesh_target(32), options).time.value();
      EXPECT_GT(time.compute, 0) << model << schedule;
      EXPECT_NEAR(time.compute + time.exposed_communication + time.idle, time.step, 1e-6 * time.step)
          << model << schedule;
    }
  }
}

TEST(MeshTime, OfferedForManyRanks) {
  for (const int64_t ranks : {10'240, 102'400}) {
    RunOptions options = mesh_options("gpt3-175b", ranks, 8, 8);
    options.micro_batches = 64;
    const PlannedTime time = plan_numbers(mesh_target(ranks), options).time.value();
    EXPECT_TRUE(std::isfinite(time.step) && time.step > time.compute) << ranks;
  }
}

// Ranks of a tensor axis that lie on several hosts exchange over the network.
TEST(MeshTime, IsLongerIfTensorRanksLieOnSeveralHosts) {
  const RunOptions options = mesh_options("llama2-70b", 64, 2, 8);
  PlanTarget target = mesh_target(64);
  const double within = plan_numbers(target, options).time->step;
  target.hosts = 16;
  EXPECT_GT(plan_numbers(target, options).time->step, within);
}

}  // namespace
}  // namespace trainer
