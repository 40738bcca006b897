// Where every thread of this process is: for a rank that stands still.
#pragma once

#include <string>

namespace trainer {

// For each thread its name, its state in the system, and its stack, the innermost function first. Each is interrupted
// by a real-time signal for that; one that does not answer within a second is named without its stack. One thread at a
// time.
std::string stacks_of_all_threads();

}  // namespace trainer
