// Runs whose steps keep the same tensors, which differ in their sizes alone.
#pragma once

#include <cstdint>
#include <string>
#include <tuple>

#include "options/options.h"

namespace trainer {

// The layers, what they keep and where, and the dtype. True or false: a micro-batch is one sequence, as operators treat
// a dimension of 1 in a way of its own; there is no backward; the model is one rank's part.
using RunKind = std::tuple<int64_t, std::string, bool, std::string, bool, bool, bool>;
inline RunKind kind_of(const RunOptions& options) {
  return {options.model.layers,        options.activation_checkpoint,
          options.offload_activations, options.param_dtype,
          options.batch == 1,          options.eval_only,
          options.model.is_part};
}

}  // namespace trainer
