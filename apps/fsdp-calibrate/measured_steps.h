// Steps of small models, trained here: what the operators' rates do not say.
#pragma once

#include <fsdp/world.h>

#include "fsdp-calibrate/stopwatch.h"
#include "plan/hardware.h"

namespace calibration {

// Sets the rate of the optimizer and the factors of steps of `share`, which has all other rates. `hardware` has the
// times of collectives. A collective.
void measure_steps(fsdp::World& world, const Effort& effort, const fsdp::plan::Hardware& hardware,
                   fsdp::plan::CpuShare& share);

}  // namespace calibration
