// The rates of a transformer's operators on this rank's share of the host.
#pragma once

#include <fsdp/world.h>

#include "fsdp-calibrate/stopwatch.h"
#include "plan/cpu_share.h"

namespace calibration {

// All rates but those of steps. A collective.
fsdp::plan::CpuShare measured_operators(fsdp::World& world, torch::ScalarType dtype, const Effort& effort);

}  // namespace calibration
