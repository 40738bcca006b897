// This host as a machine of plans.
#pragma once

#include <string>

#include "fsdp-calibrate/stopwatch.h"
#include "plan/hardware.h"

namespace calibration {

// Measures the host with as many ranks as it has cores, half as many, and one. `progress` is called with a line before
// each part. Forks ranks: no thread may have started before. Throws fsdp::Error where the ranks fail.
fsdp::plan::Hardware calibrated_host(const Effort& effort, void (*progress)(const std::string& line));

}  // namespace calibration
