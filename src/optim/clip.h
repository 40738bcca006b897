// Clipping of sharded gradients by their global norm.
#pragma once

#include "engine/model.h"

namespace fsdp::optim {

// Closes the gradients, scales them so that their norm is at most `max_norm`, and returns the norm before. A
// collective.
double clip_gradients(engine::Model& model, double max_norm, double norm_type);

}  // namespace fsdp::optim
