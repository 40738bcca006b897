#include "device/allocator.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <tuple>

#include "device/accesses.h"
#include "device/arena.h"
#include "device/fork_check.h"
#include "device/streams.h"

namespace fsdp::testing::device {

namespace {

constexpr size_t kSmallestBlock = 512;
constexpr size_t kDiscardedFrom = size_t{1} << 20;  // a free block of this size gives its memory back
constexpr int kPoison = 0xff;                       // NaN in each floating dtype

struct DeviceBlock {
  size_t bytes = 0, rounded = 0;
  c10::Stream stream;
  std::vector<c10::Stream> others;  // that used it as well
};

struct DeviceMemory {
  int64_t allocated = 0, peak = 0, blocks = 0, total_blocks = 0;
};

struct AllocatorState {
  std::mutex mutex;
  std::map<uintptr_t, DeviceBlock> blocks;
  std::map<std::tuple<c10::DeviceIndex, c10::StreamId, size_t>, std::vector<uintptr_t>> free;
  std::array<DeviceMemory, kMostDevices> memory;
};

AllocatorState& allocator_state() {
  static auto* all = new AllocatorState;
  return *all;
}

int64_t bytes_of_a_device() {
  const char* text = std::getenv("FSDP_TEST_DEVICE_MEMORY");
  return text != nullptr ? std::strtoll(text, nullptr, 10) : int64_t{8} << 30;
}

void free_block(void* pointer) {
  if (pointer == nullptr) return;
  const auto begin = reinterpret_cast<uintptr_t>(pointer);
  AllocatorState& s = allocator_state();
  std::lock_guard lock(s.mutex);
  const auto found = s.blocks.find(begin);
  const DeviceBlock block = std::move(found->second);
  s.blocks.erase(found);
  forget_accesses({begin, begin + block.rounded}, block.others);
  Arena& arena = arena_of(block.stream.device_index());
  if (block.rounded >= kDiscardedFrom) arena.discard(pointer, block.rounded);
  DeviceMemory& memory = s.memory[static_cast<size_t>(block.stream.device_index())];
  memory.allocated -= static_cast<int64_t>(block.rounded);
  --memory.blocks;
  s.free[{block.stream.device_index(), block.stream.id(), block.rounded}].push_back(begin);
}

class TestDeviceAllocator final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    const c10::DeviceIndex device = current_device();
    const c10::Device place(c10::kCUDA, device);
    note_use();
    if (bytes == 0) return {nullptr, nullptr, &free_block, place};
    const size_t rounded = (bytes + kSmallestBlock - 1) / kSmallestBlock * kSmallestBlock;
    AllocatorState& s = allocator_state();
    std::lock_guard lock(s.mutex);
    DeviceMemory& memory = s.memory[static_cast<size_t>(device)];
    TORCH_CHECK_WITH(OutOfMemoryError, memory.allocated + static_cast<int64_t>(rounded) <= bytes_of_a_device(),
                     "CUDA out of memory. Tried to allocate ", bytes, " bytes. The tests' device ",
                     static_cast<int>(device), " has ", bytes_of_a_device(), ", of which ", memory.allocated,
                     " are in use.");
    const c10::Stream stream = current_stream(device);
    std::vector<uintptr_t>& free = s.free[{device, stream.id(), rounded}];
    void* pointer = nullptr;
    if (free.empty()) {
      pointer = arena_of(device).take(rounded);
    } else {
      pointer = reinterpret_cast<void*>(free.back());
      free.pop_back();
    }
    std::memset(arena_of(device).alias(pointer), kPoison, rounded);
    s.blocks.emplace(reinterpret_cast<uintptr_t>(pointer), DeviceBlock{bytes, rounded, stream, {}});
    memory.allocated += static_cast<int64_t>(rounded);
    memory.peak = std::max(memory.peak, memory.allocated);
    ++memory.blocks;
    ++memory.total_blocks;
    return {pointer, pointer, &free_block, place};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_block; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    const Arena* arena = arena_with(to);
    const auto target = reinterpret_cast<uintptr_t>(to), source = reinterpret_cast<uintptr_t>(from);
    note_launch(current_stream(current_device()), "copy_data", {{source, source + bytes}}, {{target, target + bytes}});
    std::memcpy(arena->alias(to), arena_with(from)->alias(from), bytes);
  }

  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t) override {}
  void recordStream(const c10::DataPtr& pointer, c10::Stream stream) override { use_on_stream(pointer.get(), stream); }
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override {
    AllocatorState& s = allocator_state();
    std::lock_guard lock(s.mutex);
    const DeviceMemory& memory = s.memory.at(static_cast<size_t>(device));
    c10::CachingDeviceAllocator::DeviceStats stats;
    for (auto* bytes : {&stats.allocated_bytes, &stats.active_bytes, &stats.reserved_bytes, &stats.requested_bytes}) {
      (*bytes)[0].current = memory.allocated;
      (*bytes)[0].peak = memory.peak;
    }
    stats.allocation[0].current = memory.blocks;
    stats.allocation[0].allocated = memory.total_blocks;
    return stats;
  }
  void resetAccumulatedStats(c10::DeviceIndex) override {}
  void resetPeakStats(c10::DeviceIndex device) override {
    AllocatorState& s = allocator_state();
    std::lock_guard lock(s.mutex);
    DeviceMemory& memory = s.memory.at(static_cast<size_t>(device));
    memory.peak = memory.allocated;
  }
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex device) override {
    AllocatorState& s = allocator_state();
    std::lock_guard lock(s.mutex);
    const auto total = static_cast<size_t>(bytes_of_a_device());
    return {total - static_cast<size_t>(s.memory.at(static_cast<size_t>(device)).allocated), total};
  }
};

struct RegisterAllocator {
  RegisterAllocator() { c10::SetAllocator(c10::kCUDA, &device_allocator()); }
} const register_allocator;

DeviceMemory& memory_of_this(AllocatorState& s) { return s.memory[static_cast<size_t>(current_device())]; }

}  // namespace

c10::DeviceAllocator& device_allocator() {
  static auto* allocator = new TestDeviceAllocator;
  return *allocator;
}

void use_on_stream(const void* pointer, const c10::Stream& stream) {
  AllocatorState& s = allocator_state();
  std::lock_guard lock(s.mutex);
  const auto place = reinterpret_cast<uintptr_t>(pointer);
  auto found = s.blocks.upper_bound(place);
  if (found == s.blocks.begin()) return;
  DeviceBlock& block = std::prev(found)->second;
  if (stream != block.stream) block.others.push_back(stream);
}

int64_t allocated_bytes() {
  AllocatorState& s = allocator_state();
  std::lock_guard lock(s.mutex);
  return memory_of_this(s).allocated;
}

int64_t peak_bytes() {
  AllocatorState& s = allocator_state();
  std::lock_guard lock(s.mutex);
  return memory_of_this(s).peak;
}

void reset_peak_bytes() { device_allocator().resetPeakStats(current_device()); }

}  // namespace fsdp::testing::device
