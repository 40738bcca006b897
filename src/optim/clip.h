// Clipping of sharded gradients by their global norm.
#pragma once

#include <torch/types.h>

#include <span>

#include "engine/model.h"

namespace fsdp::optim {

// Closes the gradients of all models, scales them by one factor so that their norm over all is at most `max_norm`, and
// returns the norm before. A collective of each model. Gradients on a device: waits for it once.
double clip_gradients(std::span<engine::Model* const> models, double max_norm, double norm_type);
// The same, with the norm as [] of float64 where the gradients lie. Of a device nothing waits for it: the factor stays
// there.
torch::Tensor clip_gradients_async(std::span<engine::Model* const> models, double max_norm, double norm_type);

}  // namespace fsdp::optim
