// Clipping of sharded gradients by their global norm.
#pragma once

#include <torch/types.h>

#include <span>

#include "engine/model.h"

namespace fsdp::optim {

// Closes the gradients of all models, scales them by one factor so that their norm over all is at most `max_norm`, and
// returns the norm before. A collective of each model. Gradients on a device: waits for it once.
double clip_gradients(std::span<engine::Model* const> models, double max_norm, double norm_type);
// The same, but returns the norm as [] of float64 on the gradients' device. The host does not wait for a device: the
// factor stays there.
torch::Tensor clip_gradients_async(std::span<engine::Model* const> models, double max_norm, double norm_type);

}  // namespace fsdp::optim
