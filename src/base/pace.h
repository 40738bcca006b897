// How long the library waits for signs of life from another rank, before it takes silence or a standstill for a
// failure.
//
// Each such wait has a constant where it is used. A test divides all of them by one number, so that it finds a failure
// in a part of the time.
#pragma once

#include <atomic>
#include <chrono>

namespace fsdp {

namespace detail {
inline std::atomic<int> pace = 1;
}

// For waits that begin later, in this process and its forked children.
inline void divide_waits_by(int number) { detail::pace = number; }

inline std::chrono::milliseconds paced(std::chrono::milliseconds usual) {
  return usual / detail::pace.load(std::memory_order_relaxed);
}

}  // namespace fsdp
