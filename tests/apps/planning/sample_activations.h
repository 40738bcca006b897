// Activations of a plan's model without LibTorch: some tensors of the width for each layer, and the logits.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planning/planned_activations.h"

namespace trainer {

inline PlannedActivations sample_activations(const Options& options) {
  PlannedActivations activations;
  for (const std::string& dtype : {options.param_dtype, std::string("bf16")}) {
    for (const int64_t batch : {options.batch, int64_t{1}}) {
      Options run = options;
      run.param_dtype = dtype;
      run.batch = batch;
      if (activations.knows(run)) continue;
      const Options tiny = with_prime_sizes(run);
      const int64_t tokens = tiny.batch * tiny.model.context, element = dtype == "fp32" ? 4 : 2;
      std::vector<int64_t> storages(static_cast<size_t>(17 * tiny.model.layers), tokens * tiny.model.width * element);
      storages.push_back(4 * tokens * tiny.model.vocabulary);
      activations.add(run, storages);
    }
  }
  return activations;
}

}  // namespace trainer
