#include "deferred/page_memory.h"

#include <c10/core/Allocator.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace fsdp::deferred {

namespace {

constexpr int64_t kLeastBytes = 1 << 18;  // smaller ones do not matter

// As LibTorch's allocator tells a profiler.
void report(void* memory, int64_t bytes) {
  if (c10::memoryProfilingEnabled()) c10::reportMemoryUsageToProfiler(memory, bytes, 0, 0, torch::kCPU);
}

}  // namespace

torch::Tensor page_memory(int64_t bytes, torch::Device device) {
  const auto options = torch::dtype(torch::kByte).device(device);
  if (bytes < kLeastBytes || !device.is_cpu()) return torch::empty({bytes}, options);
  void* memory = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  FSDP_CHECK(memory != MAP_FAILED, "deferred_init: no memory for {} bytes of a parameter or a unit: {}", bytes,
             std::strerror(errno));
  report(memory, bytes);
  const auto free = [bytes](void* freed) {
    report(freed, -bytes);
    munmap(freed, static_cast<size_t>(bytes));
  };
  return torch::from_blob(memory, {bytes}, free, options);
}

}  // namespace fsdp::deferred
