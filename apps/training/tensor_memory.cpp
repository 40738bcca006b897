#include "training/tensor_memory.h"

#include <c10/core/Allocator.h>

#include <algorithm>
#include <atomic>

namespace trainer {

class TensorMemory::Counter : public c10::MemoryReportingInfoBase {
 public:
  explicit Counter(c10::Device device) : device_(device) {}

  void reportMemoryUsage(void*, int64_t bytes, size_t, size_t, c10::Device device) override {
    if (device.type() != device_.type()) return;  // each rank uses one of a kind
    const int64_t held = held_ += bytes;
    raise(highest_, held);
    raise(highest_taken_, held);
  }
  bool memoryProfilingEnabled() const override { return true; }

  void begin_step() {
    at_begin_ = held_;
    highest_ = held_.load();
  }
  int64_t peak_bytes() const { return highest_ - at_begin_; }
  int64_t take_peak() { return std::max<int64_t>(highest_taken_.exchange(held_), held_) - at_begin_; }

 private:
  static void raise(std::atomic<int64_t>& highest, int64_t held) {
    int64_t seen = highest;
    while (held > seen && !highest.compare_exchange_weak(seen, held)) {
    }
  }

  const c10::Device device_;
  std::atomic<int64_t> held_ = 0, highest_ = 0;
  std::atomic<int64_t> highest_taken_ = 0;  // since `take_peak`
  int64_t at_begin_ = 0;
};

TensorMemory::TensorMemory(c10::Device device)
    : counter_(std::make_shared<Counter>(device)), guard_(c10::DebugInfoKind::PROFILER_STATE, counter_) {}

TensorMemory::~TensorMemory() = default;

void TensorMemory::begin_step() { counter_->begin_step(); }

int64_t TensorMemory::peak_bytes() const { return counter_->peak_bytes(); }

int64_t TensorMemory::take_peak() { return counter_->take_peak(); }

}  // namespace trainer
