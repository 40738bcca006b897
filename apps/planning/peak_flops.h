// The peak that a step's efficiency (MFU) is measured by: the rate of matrix products on this machine.
#pragma once

#include <fsdp/world.h>

namespace trainer {

// Floating-point operations per second that all ranks together reach in products of large square matrices of `dtype` on
// their devices, all at the same time and each with its threads: the best of a few widths, some tenths of a second.
// Ranks beyond the cores do not add to it. A collective.
double measured_peak_flops(fsdp::World& world, torch::ScalarType dtype);

}  // namespace trainer
