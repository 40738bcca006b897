// The sizes in which memory is mapped.
#pragma once

#include <cstddef>

namespace fsdp::memory {

inline constexpr size_t kPageBytes = 4096;
inline constexpr size_t kHugePageBytes = size_t{2} << 20;

}  // namespace fsdp::memory
