// The memory that a traced model held between two moments of its timeline.
#pragma once

#include <cstdint>
#include <optional>

namespace fsdp::report {

// In bytes; the state is as in MemoryReport, at the later moment.
struct MemorySample {
  int64_t time = 0;  // the earlier moment, in nanoseconds
  int64_t parameters = 0, gradients = 0, optimizer = 0, full_parameters = 0, full_gradients = 0;
  int64_t in_files = 0;                                 // of the state
  int64_t activations = 0;                              // the most in between
  std::optional<int64_t> other_tensors = std::nullopt;  // the most in between, activations among them; none: not known
};

}  // namespace fsdp::report
