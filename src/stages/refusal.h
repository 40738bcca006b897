// Errors about a place in a schedule.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <utility>

#include "stages/stage_schedule.h"

namespace fsdp::stages {

// The schedule around a place: a line per position, a column per rank, and a mark at the place.
std::string grid_around(const StageSchedule& schedule, ActionPlace place);

[[noreturn]] void throw_refusal(const StageSchedule& schedule, ActionPlace place, const std::string& problem);

// Throws an Error that names the place and its action, and ends with the grid around it. A place behind the rank's last
// action is its end.
template <typename... Arguments>
[[noreturn]] void refuse(const StageSchedule& schedule, ActionPlace place, fmt::format_string<Arguments...> problem,
                         Arguments&&... arguments) {
  throw_refusal(schedule, place, fmt::format(problem, std::forward<Arguments>(arguments)...));
}

}  // namespace fsdp::stages
