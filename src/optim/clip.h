// Clipping of sharded gradients by their global norm.
#pragma once

#include <span>

#include "engine/model.h"

namespace fsdp::optim {

// Closes the gradients of all models, scales them by one factor so that their norm over all is at most `max_norm`, and
// returns the norm before. A collective of each model.
double clip_gradients(std::span<engine::Model* const> models, double max_norm, double norm_type);

}  // namespace fsdp::optim
