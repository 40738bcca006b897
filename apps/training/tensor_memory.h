// How much memory tensors take in a step: activations, and gradients on their way.
#pragma once

#include <c10/util/ThreadLocalDebugInfo.h>

#include <cstdint>
#include <memory>

namespace trainer {

// Counts what LibTorch allocates and frees on one device in the thread that made it, and in autograd's threads that
// work for it, as LibTorch's allocators report it to a profiler. One per thread at a time; it ends in the thread that
// made it. Make it before the tensors: of one that was there before, it is not known how much it gives back.
class TensorMemory {
 public:
  explicit TensorMemory(c10::Device device);
  ~TensorMemory();
  TensorMemory(const TensorMemory&) = delete;
  TensorMemory& operator=(const TensorMemory&) = delete;

  void begin_step();
  // The most bytes that tensors held since then, beyond what they held then.
  int64_t peak_bytes() const;
  // The most since the last call, beyond what they held when the step began.
  int64_t take_peak();

 private:
  class Counter;
  std::shared_ptr<Counter> counter_;
  c10::DebugInfoGuard guard_;
};

}  // namespace trainer
