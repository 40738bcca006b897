// The peak that a step's efficiency (MFU) is measured by: the rate of matrix products on this machine.
#pragma once

#include <fsdp/world.h>

namespace trainer {

// Floating-point operations per second of all ranks together, in products of large square matrices of `dtype` on their
// devices. All work at the same time, each with its threads. It is the best of a few widths, and takes some tenths of a
// second. Ranks beyond the cores do not add to it. A collective.
double measured_peak_flops(fsdp::World& world, torch::ScalarType dtype);

}  // namespace trainer
