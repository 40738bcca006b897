#include "planning/planned_tensors.h"

#include <algorithm>

#include "planning/planned_activations.h"
#include "planning/run_graphs.h"
#include "run/evaluation_pass.h"

namespace trainer {

namespace {

double evaluation_bytes(const RunOptions& options, bool on_gpus) {
  models::MicroBatchSizes sizes = micro_batch_sizes(options, on_gpus);
  sizes.evaluates = true;
  const fsdp::plan::ModelGraphs graphs = models::model_graphs(options.model, sizes);
  const std::vector<fsdp::KeptResults> layers(static_cast<size_t>(options.model.layers), fsdp::KeptResults::All);
  return static_cast<double>(evaluation_peak_bytes(pieces_of(graphs, layers)));
}

}  // namespace

// One rank alone has no others: what autograd makes of a step's only micro-batch stays where it is.
fsdp::plan::ParameterGradients gradients_of(const RunOptions& options) {
  using fsdp::plan::ParameterGradients;
  const bool is_alone = options.ranks == 1 && options.micro_batches == 1;
  return is_alone ? ParameterGradients::OfAutograd : ParameterGradients::InBuffers;
}

double planned_tensor_bytes(const RunOptions& options, bool on_gpus) {
  if (options.eval_only) return evaluation_bytes(options, on_gpus);
  fsdp::plan::StepTensors step{.gradients = gradients_of(options)};
  if (options.offload_activations) step.offloaded_from = kLeastOffloaded;
  const fsdp::plan::ModelGraphs graphs = run_graphs(options, on_gpus);
  return static_cast<double>(tensor_peak_bytes(pieces_of(graphs, kept_by_layers(options)), step));
}

double validation_tensor_bytes(const RunOptions& options, bool on_gpus) {
  RunOptions validation = options;
  validation.batch = windows_of_pass(options.model.context);
  if (options.validation_windows > 0) validation.batch = std::min(validation.batch, options.validation_windows);
  return evaluation_bytes(validation, on_gpus);
}

}  // namespace trainer
