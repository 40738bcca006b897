// How often, and for how long: what a contestant does when it is asked for the time of an operation.
#pragma once

#include <functional>

#include "conversation.h"

namespace contestant {

// Computes for a moment, so that the system has given each rank a core, as in training.
void compute_for_a_moment();

// First computes for a moment. Then once unmeasured, so that memory is there; then the seconds of each repetition.
Json measure(const Json& command, const std::function<void()>& operation);

inline int64_t bytes_of(const Json& command) { return command.at("bytes"); }

inline constexpr int64_t kElementBytes = 4;  // fp32

}  // namespace contestant
