#include "planning/search_setting.h"

#include <fmt/format.h>

#include "console/units.h"

namespace trainer {

SearchSetting SearchSetting::of(const RunOptions& options) {
  return {.ranks = options.ranks,
          .pipeline = options.pipeline_parallel,
          .tensor = options.tensor_parallel,
          .has_slices = options.sequence_parallel,
          .schedule = options.pipeline_schedule,
          .stages_per_rank = options.stages_per_rank,
          .strategy = options.strategy,
          .group = options.shard_group_size,
          .batch = options.batch,
          .micro_batches = options.micro_batches,
          .recomputation = options.activation_checkpoint,
          .layers_per_unit = options.layers_per_unit,
          .prefetch = options.prefetch,
          .buffers = options.buffers};
}

RunOptions SearchSetting::applied_to(const RunOptions& options) const {
  RunOptions run = options;
  run.ranks = ranks;
  run.pipeline_parallel = pipeline;
  run.tensor_parallel = tensor;
  run.sequence_parallel = has_slices;
  run.pipeline_schedule = schedule;
  run.stages_per_rank = stages_per_rank;
  run.strategy = strategy;
  run.shard_group_size = group;
  run.batch = batch;
  run.micro_batches = micro_batches;
  run.activation_checkpoint = recomputation;
  run.activation_memory.reset();
  run.layers_per_unit = layers_per_unit;
  run.prefetch = prefetch;
  run.buffers = buffers;
  return run;
}

std::string SearchSetting::text(const RunOptions& options) const {
  std::string text = ranks == options.ranks ? "" : fmt::format("--ranks {} ", ranks);
  if (pipeline > 1) {
    text += fmt::format("--pipeline-parallel {} --pipeline-schedule {} ", pipeline, schedule);
    if (stages_per_rank > 1) text += fmt::format("--stages-per-rank {} ", stages_per_rank);
  }
  if (tensor > 1) text += fmt::format("--tensor-parallel {} {}", tensor, has_slices ? "--sequence-parallel " : "");
  text += fmt::format("--strategy {} ", strategy);
  if (group > 0) text += fmt::format("--shard-group-size {} ", group);
  text += fmt::format("--batch {} --micro-batches {} --activation-checkpoint {}", batch, micro_batches, recomputation);
  if (layers_per_unit > 1) text += fmt::format(" --layers-per-unit {}", layers_per_unit);
  if (prefetch != 1 || buffers != 2) text += fmt::format(" --prefetch {} --buffers {}", prefetch, buffers);
  return text;
}

std::string SearchSetting::name(const RunOptions& options) const {
  std::string name = ranks == options.ranks ? "" : fmt::format("{}, ", counted(ranks, "rank"));
  name += strategy;
  if (group > 0) name += fmt::format(" over {}", group);
  if (pipeline > 1) name += fmt::format(", {} stages, {}", pipeline * stages_per_rank, schedule);
  if (tensor > 1) name += fmt::format(", {} tensor ranks{}", tensor, has_slices ? " with slices of the sequence" : "");
  name += fmt::format(", {} of {}", counted(micro_batches, "micro-batch", "micro-batches"), batch);
  if (recomputation == "all") name += ", recomputes all";
  if (recomputation == "selective") name += ", recomputes selectively";
  if (layers_per_unit > 1) name += fmt::format(", units of {} layers", layers_per_unit);
  return prefetch > 1 ? fmt::format("{}, prefetch {}", name, prefetch) : name;
}

}  // namespace trainer
