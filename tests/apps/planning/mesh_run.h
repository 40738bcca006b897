// A small run of a mesh on the ranks of a test, beside what was planned.
#pragma once

#include <fsdp/fsdp.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <set>

#include "apps/planning/held_memory.h"
#include "models/language_model.h"
#include "models/pipeline_blocks.h"
#include "planning/mesh_memory.h"
#include "planning/mesh_traffic.h"
#include "run/sharding.h"

namespace trainer {

inline RunOptions small_mesh_run(int64_t ranks, int64_t pipeline, int64_t tensor) {
  RunOptions options;
  options.model = {.vocabulary = 67, .context = 16, .width = 64, .layers = 4, .heads = 4};
  options.ranks = ranks;
  options.pipeline_parallel = pipeline;
  options.tensor_parallel = tensor;
  options.batch = 3;
  options.micro_batches = 4;
  return options;
}

inline fsdp::PipelineSchedule schedule_of(const RunOptions& options) {
  const auto* word = std::ranges::find(kPipelineSchedules, options.pipeline_schedule);
  return static_cast<fsdp::PipelineSchedule>(word - kPipelineSchedules.begin());
}

// The third step of a run, by a rank.
struct MeshStep {
  fsdp::MemoryReport memory;
  fsdp::CommunicationReport communication;
};

// `step` runs forwards and backwards of a step.
inline MeshStep third_step(fsdp::ShardedModel& sharded, const std::function<void()>& step) {
  fsdp::AdamW optimizer(sharded);
  fsdp::CommunicationReport before;
  for (int i = 0; i < 3; ++i) {
    before = sharded.communication();  // an optimizer's step gathers the first units of the next one
    if (i > 0) {
      optimizer.step();
      optimizer.zero_grad();
    }
    sharded.reset_peak_memory();
    step();
  }
  return {sharded.memory(), sharded.communication().since(before)};
}

inline MeshStep run_mesh(const fsdp::World& world, const fsdp::Mesh& mesh, const RunOptions& options) {
  models::Division division;
  if (options.tensor_parallel > 1)
    division = {mesh["tensor"], static_cast<int>(options.parts()), options.sequence_parallel};
  const fsdp::Tensors tokens(static_cast<size_t>(options.micro_batches), tokens_of(world, options));
  torch::manual_seed(1);
  if (options.pipeline_parallel == 1) {
    const auto model = models::make_model(options.model, division);
    model->to(world.device());
    model->set_recomputation(options.recomputation());
    auto sharded = fsdp::shard(*model, mesh, "data", sharding_of(options));
    return third_step(sharded, [&] {
      for (const torch::Tensor& micro_batch : tokens) model->loss(micro_batch, micro_batch).backward();
    });
  }
  const models::PipelinedModel model(options.model, division, options.recomputation());
  fsdp::Pipeline pipeline(model.blocks(), mesh["pipeline"],
                          {.schedule = schedule_of(options),
                           .stages_per_rank = static_cast<int>(options.stages_per_rank),
                           .cuts = planned_mesh(options).cuts});
  pipeline.stage().to(world.device());
  auto sharded = fsdp::shard(pipeline.stage(), mesh, "data", sharding_of(options));
  return third_step(sharded, [&] {
    pipeline.step(tokens, tokens, [&](const auto& output, const auto& targets) { return model.loss(output, targets); });
  });
}

// State and buffers to the byte, activations within a hundredth. `uncounted`: bytes of activations that the model does
// not count. `again`: gathers at most that a prefetch makes too early, and again.
inline void expect_planned_mesh(fsdp::World& world, const RunOptions& options, double uncounted = 0,
                                int64_t again = 0) {
  const fsdp::Mesh mesh(world, {{"data", static_cast<int>(options.data_ranks())},
                                {"pipeline", static_cast<int>(options.pipeline_parallel)},
                                {"tensor", static_cast<int>(options.tensor_parallel)}});
  const RunPlan plan{.options = options, .host = {.on_gpus = on_gpus(world)}};
  const fsdp::plan::Mesh planned = planned_mesh(options);
  const fsdp::plan::MeshPlaces places(planned.sizes, 1);
  const fsdp::plan::MeshCoordinates at{mesh.coordinate("data"), mesh.coordinate("pipeline"), mesh.coordinate("tensor")};
  const fsdp::plan::StateMemory model =
      plan_stage(plan, planned, places, static_cast<int>(at.pipeline), at.tensor).at(static_cast<size_t>(at.data));
  const MeshStep found = run_mesh(world, mesh, options);
  SCOPED_TRACE(testing::Message() << "data " << at.data << ", pipeline " << at.pipeline << ", tensor " << at.tensor);
  EXPECT_EQ(found.memory.parameter_bytes, model.parameters);
  EXPECT_EQ(found.memory.gradient_bytes, model.gradients);
  EXPECT_EQ(found.memory.optimizer_bytes, model.optimizer);
  EXPECT_EQ(found.memory.full_parameter_bytes, model.full_parameters);
  // A reduction that waits for a peer in another pipeline may leave its buffer, one of two or three.
  EXPECT_GE(found.memory.full_gradient_bytes, model.full_gradients);
  const bool may_wait = options.pipeline_parallel > 1 && planned_sharding(options, 1, on_gpus(world)).shares_buffers;
  EXPECT_LE(found.memory.full_gradient_bytes, model.full_gradients + (may_wait ? model.full_gradients / 2 : 0));
  const auto activations = static_cast<double>(found.memory.peak_activation_bytes);
  const double expected = tensors_of_rank(plan, planned, static_cast<int>(at.pipeline)).activations;
  EXPECT_GE(expected, 0.99 * activations);
  EXPECT_LE(expected, 1.01 * activations + uncounted);
  const fsdp::plan::Communication traffic = traffic_of_rank(options, on_gpus(world), planned, places, at).data;
  EXPECT_GE(found.communication.gathers, traffic.gathers_count);
  EXPECT_LE(found.communication.gathers, traffic.gathers_count + again);
  EXPECT_EQ(found.communication.reductions, traffic.reductions_count);
}

}  // namespace trainer
