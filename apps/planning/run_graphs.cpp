#include "planning/run_graphs.h"

#include "options/frozen.h"
#include "planning/element_bytes.h"
#include "planning/kept_layers.h"

namespace trainer {

models::MicroBatchSizes micro_batch_sizes(const RunOptions& options, bool on_gpus) {
  return {.batch = options.batch,
          .element_bytes = element_bytes(options.param_dtype),
          .is_fp16 = options.param_dtype == "fp16",
          .on_gpus = on_gpus,
          .tensor_ranks = options.tensor_parallel,
          .sequence_parallel = options.sequence_parallel,
          .tensor_parts = options.parts()};
}

fsdp::plan::ModelGraphs run_graphs(const RunOptions& options, bool on_gpus) {
  return models::model_graphs(options.model, micro_batch_sizes(options, on_gpus), frozen_parameters(options));
}

std::vector<fsdp::KeptResults> kept_by_layers(const RunOptions& options) {
  return kept_by_layers(options.recomputation(), options.model.layers);
}

}  // namespace trainer
