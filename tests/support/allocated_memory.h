// The memory that LibTorch allocates for tensors on this thread.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <cstdint>
#include <memory>

namespace fsdp::testing {

class AllocatedMemory {
 public:
  // The most bytes that were held at a time since this was made, or since `begin`, beyond those held then.
  int64_t most_bytes() const { return counter_->most; }
  void begin() { counter_->held = counter_->most = 0; }

 private:
  struct Counter : c10::MemoryReportingInfoBase {
    void reportMemoryUsage(void*, int64_t bytes, size_t, size_t, c10::Device) override {
      most = std::max(most, held += bytes);
    }
    bool memoryProfilingEnabled() const override { return true; }

    int64_t held = 0, most = 0;
  };

  std::shared_ptr<Counter> counter_ = std::make_shared<Counter>();
  c10::DebugInfoGuard guard_{c10::DebugInfoKind::PROFILER_STATE, counter_};
};

}  // namespace fsdp::testing
