#include "planning/planned_time.h"

#include "plan/libfsdp_step.h"
#include "plan/megatron_step.h"
#include "planning/element_bytes.h"
#include "planning/mesh_time.h"
#include "planning/planned_mesh.h"
#include "planning/planned_sharding.h"
#include "planning/transformer_shape.h"

namespace trainer {

namespace {

using fsdp::plan::StepSeconds;

fsdp::plan::ShardedRun sharded_run(const PlanTarget& target, const RunOptions& options) {
  const models::Recomputation recomputation = options.recomputation();
  const fsdp::plan::Sharding sharding = planned_sharding(options, target.hosts, !target.hardware.has_cpus());
  return {.shape = transformer_shape(options.model),
          .pass = {.batch = options.batch,
                   .sequence = options.model.context,
                   .element = sharding.param_bytes,
                   .has_wide_loss = target.engine != "libfsdp" && target.has_wide_loss},
          .micro_batches = options.micro_batches,
          .ranks = options.ranks,
          .group = sharding.group,
          .gathers_again = sharding.shares_buffers,
          .recomputed = recomputation.keeps_products ? 0 : recomputation.blocks,
          .is_selective = recomputation.keeps_products && recomputation.blocks > 0,
          .layers_per_unit = options.layers_per_unit,
          .reduction_element = sharding.reduce_bytes,
          .clips = options.clip > 0};
}

StepSeconds megatron_seconds(const PlanTarget& target, const RunOptions& options) {
  fsdp::plan::Hardware hardware = target.hardware;
  hardware.sustained = 1;  // as its numbers were fitted
  return megatron_step({.shape = transformer_shape(options.model),
                        .batch = options.batch,
                        .sequence = options.model.context,
                        .micro_batches = options.micro_batches,
                        .data = options.data_ranks(),
                        .pipeline = options.pipeline_parallel,
                        .tensor = options.tensor_parallel},
                       fsdp::plan::MegatronEngine(), hardware);
}

bool moves_state(const RunOptions& options) {
  return options.offloads() || options.cpu_offload || options.offload_activations;
}

fsdp::plan::ShardedEngine engine_of(const PlanTarget& target, const RunOptions& options) {
  fsdp::plan::ShardedEngine engine = fsdp::plan::sharded_engine(target.engine);
  if (options.strategy == "no-shard") engine.is_divided = false;
  if (!target.has_skew) engine.skew = 0;
  return engine;
}

StepSeconds mesh_seconds(const PlanTarget& target, const RunOptions& options) {
  const fsdp::plan::Mesh mesh = planned_mesh(options);
  const fsdp::plan::MeshPlaces places(mesh.sizes, target.hosts);
  return fsdp::plan::mesh_seconds(mesh_step_of(options, mesh, places), places, engine_of(target, options),
                                  target.hardware)
      .step;
}

// The rates of CPUs are those of this library's ranks on one host without a mesh, for the dtypes that were measured.
bool has_schedule_on_cpus(const PlanTarget& target, const RunOptions& options) {
  const int64_t element = element_bytes(options.param_dtype);
  return target.engine == "libfsdp" && target.hosts == 1 && !options.is_divided() && options.param_dtype != "fp16" &&
         fsdp::plan::share_of(target.hardware.shares, options.ranks, element) != nullptr;
}

}  // namespace

std::optional<SimulatedRun> simulated_run(const PlanTarget& target, const RunOptions& options) {
  if (target.engine == "megatron" || options.is_divided() || moves_state(options)) return std::nullopt;
  return SimulatedRun{.run = sharded_run(target, options), .engine = engine_of(target, options)};
}

StepSeconds step_of(const SimulatedRun& simulated, const PlanTarget& target, const RunOptions& options) {
  const auto& [run, engine] = simulated;
  if (target.engine != "libfsdp") return fsdp::plan::step_seconds(run, engine, target.hardware);
  return fsdp::plan::libfsdp_step({.run = run,
                                   .strategy = strategy_number(options),
                                   .buffers = static_cast<int>(options.buffers),
                                   .prefetch = static_cast<int>(options.prefetch)},
                                  engine, target.hardware);
}

bool has_schedule(const PlanTarget& target, const RunOptions& options) {
  if (target.hardware.has_cpus() && !has_schedule_on_cpus(target, options)) return false;
  if (target.engine == "megatron") return true;
  return !moves_state(options) && (!options.is_divided() || target.engine == "libfsdp");
}

std::optional<StepSeconds> planned_step(const PlanTarget& target, const RunOptions& options) {
  if (!has_schedule(target, options)) return std::nullopt;
  if (target.engine == "megatron") return megatron_seconds(target, options);
  if (options.is_divided()) return mesh_seconds(target, options);
  return step_of(simulated_run(target, options).value(), target, options);
}

}  // namespace trainer
