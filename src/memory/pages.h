// The sizes in which memory is mapped.
#pragma once

#include <cstddef>

namespace fsdp::memory {

inline constexpr size_t kPageBytes = 4096;
inline constexpr size_t kHugePageBytes = size_t{2} << 20;

// The bytes of all pages for so many bytes.
constexpr size_t whole_pages(size_t bytes) { return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes; }

}  // namespace fsdp::memory
