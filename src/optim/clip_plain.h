// Clipping of gradients that are not sharded, of a model that has other parts on other ranks.
#pragma once

#include <torch/types.h>

#include <memory>
#include <vector>

#include "engine/other_parts.h"

namespace fsdp::optim {

// Scales the gradients so that their norm over all parts is at most `max_norm`, and returns the norm before: the same
// sum as clip_gradients', so the same bits. A collective of each of `parts`, one after the other.
double clip_plain_gradients(const std::vector<torch::Tensor>& parameters,
                            const std::vector<std::shared_ptr<engine::OtherParts>>& parts, double max_norm,
                            double norm_type);

}  // namespace fsdp::optim
