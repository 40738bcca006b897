// The limits of one machine on the number of ranks that are forked on it.
#pragma once

#include <string>

namespace fsdp::world {

// Why so many ranks cannot run here: the limits of open files and of processes, and memory. Empty where nothing is
// known to be in the way: what is compared is the least that ranks need.
std::string problem_of_ranks(int ranks);

}  // namespace fsdp::world
