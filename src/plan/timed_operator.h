// An operator of a simulated pass, from the time of its kernels.
#pragma once

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "plan/step_events.h"
#include "plan/work.h"

namespace fsdp::plan {

// The host's time is counted in launches of so many seconds (StepDurations::launch).
inline constexpr double kLaunchSeconds = 1e-6;

inline PassOperator timed_operator(const WorkTime& work, std::vector<UnitId> units) {
  return {.units = std::move(units),
          .seconds = std::max(0.0, work.device),
          .launches = std::max(1, static_cast<int>(std::lround(work.host / kLaunchSeconds)))};
}

}  // namespace fsdp::plan
