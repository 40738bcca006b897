// The time to use a peer's parameters where they lie, and the time to copy them first and use the copy.
#pragma once

#include <cstddef>

namespace fsdp::collectives::shm {

struct GatherSeconds {
  double map = 0, copy = 0;
};

inline constexpr size_t kTrialBytes = size_t{48} << 20;

// Multiplies by matrices that lie in `memory`, kTrialBytes of a peer's.
GatherSeconds try_gathers(char* memory);

}  // namespace fsdp::collectives::shm
