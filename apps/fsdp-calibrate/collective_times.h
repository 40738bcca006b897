// The time of collectives between the ranks of this host.
#pragma once

#include <fsdp/world.h>

#include "fsdp-calibrate/stopwatch.h"
#include "plan/hardware.h"

namespace calibration {

// Fills the tables for as many ranks as the world has, and the latency and the bandwidth for others. A collective.
void measure_collectives(fsdp::World& world, const Effort& effort, fsdp::plan::Hardware& hardware);

}  // namespace calibration
