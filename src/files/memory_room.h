// How much memory this process and those beside it can still have.
//
// Linux promises more than it has, and kills when the promises are called in. So check here before large allocations.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace fsdp::files {

struct MemoryRoom {
  size_t bytes = 0;
  std::string limit = {};  // the file that says so
};

// The least of what the machine has left and of what the memory control groups of this process allow, from its own up
// to the root, versions 1 and 2. A file cache that is not in use counts as free, since it gives way. `root` is where
// proc and the control groups are mounted; what cannot be read sets no limit.
// The limits of a process alone (ulimit -v) are not asked for: the system refuses what exceeds them.
MemoryRoom memory_room(const std::filesystem::path& root = "/");

// The least that a memory control group of this process lets it and those beside it have; where none sets a limit, as
// much as a size can say.
MemoryRoom memory_limit(const std::filesystem::path& root = "/");

}  // namespace fsdp::files
