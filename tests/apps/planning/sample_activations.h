// Activations of a plan's model without LibTorch: some tensors of the width for each layer, of which recomputation
// keeps fewer, and the logits.
#pragma once

#include <cstdint>
#include <vector>

#include "planning/planned_activations.h"
#include "planning/planned_blocks.h"
#include "planning/planned_offload.h"

namespace trainer {

inline int64_t tensors_of_sample_layer(const RunOptions& options) {
  if (options.activation_checkpoint == "all") return 1;
  return options.activation_checkpoint == "selective" ? 7 : 17;
}

inline PlannedActivations sample_activations() {
  return PlannedActivations([](const RunOptions& tiny) {
    const int64_t tokens = tiny.batch * tiny.model.context, element = tiny.param_dtype == "fp32" ? 4 : 2;
    const auto tensors = static_cast<size_t>(tensors_of_sample_layer(tiny) * tiny.model.layers);
    std::vector<int64_t> storages(tensors, tokens * tiny.model.width * element);
    storages.push_back(4 * tokens * tiny.model.vocabulary);
    return std::vector<std::vector<int64_t>>{storages};
  });
}

// The same where those of the width are offloaded.
inline PlannedOffload sample_offload() {
  return PlannedOffload([](const RunOptions& tiny) {
    const int64_t tokens = tiny.batch * tiny.model.context, element = tiny.param_dtype == "fp32" ? 4 : 2;
    return std::vector<PlannedOffload::Moment>{
        {.in_memory = {{4 * tokens * tiny.model.vocabulary, 1}},
         .offloaded = {{tokens * tiny.model.width * element, tensors_of_sample_layer(tiny) * tiny.model.layers}}}};
  });
}

// Of each block of a mesh: as many tensors of the width as sample_activations has, and the logits.
inline PlannedBlocks sample_blocks() {
  return PlannedBlocks([](const RunOptions& tiny, int, bool) {
    const int64_t tokens = tiny.batch * tiny.model.context, element = tiny.param_dtype == "fp32" ? 4 : 2;
    const std::vector<int64_t> kept(static_cast<size_t>(tensors_of_sample_layer(tiny)),
                                    tokens * tiny.model.width * element);
    return PlannedBlocks::Storages{.kept = kept, .moments = {kept}};
  });
}

}  // namespace trainer
