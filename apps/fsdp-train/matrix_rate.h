// What this machine reaches in the one operation that models are made of: the measure of a step's efficiency.
#pragma once

#include <fsdp/world.h>

namespace trainer {

// Floating-point operations a second that all ranks together reach in products of large square matrices of `dtype` on
// their devices, all at the same time and each with its threads: the best of a few products, some tenths of a second.
// A collective.
double measured_matrix_rate(fsdp::World& world, torch::ScalarType dtype);

}  // namespace trainer
