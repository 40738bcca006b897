#include "planning/planned_activations.h"

#include <algorithm>

#include "plan/activations.h"
#include "planning/run_graphs.h"

namespace trainer {

namespace {

fsdp::ActivationTimeline timeline_of(const RunOptions& options, bool on_gpus) {
  return activation_timeline(run_graphs(options, on_gpus), static_cast<size_t>(options.model.layers), kProductShare);
}

double budgeted_bytes(const RunOptions& options, bool on_gpus) {
  const fsdp::ActivationTimeline timeline = timeline_of(options, on_gpus);
  const int64_t least = std::ranges::max(timeline.peaks);
  const auto budget = static_cast<int64_t>(*options.activation_memory);
  return static_cast<double>(plan_activations(timeline, std::max(least, budget)).peak_bytes);
}

}  // namespace

PlannedActivations planned_activations(const RunOptions& options, bool on_gpus) {
  if (options.eval_only) return {};
  if (options.activation_memory) return {.in_memory = budgeted_bytes(options, on_gpus)};
  const fsdp::plan::ModelGraphs graphs = run_graphs(options, on_gpus);
  const fsdp::plan::Pieces pieces = pieces_of(graphs, kept_by_layers(options));
  if (!options.offload_activations) return {.in_memory = static_cast<double>(activation_bytes(pieces).peak)};
  const fsdp::plan::OffloadedBytes bytes = offloaded_bytes(pieces, kLeastOffloaded);
  return {.in_memory = static_cast<double>(bytes.in_memory), .in_files = static_cast<double>(bytes.in_files)};
}

fsdp::ActivationPlan budgeted_activations(const RunOptions& options, bool on_gpus) {
  return plan_activations(timeline_of(options, on_gpus), static_cast<int64_t>(options.activation_memory.value()));
}

}  // namespace trainer
