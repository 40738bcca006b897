#include "device/streams.h"

#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <chrono>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <string>

#include "device/accesses.h"
#include "device/allocator.h"
#include "device/arena.h"
#include "device/fork_check.h"
#include "device/pending.h"

namespace fsdp::testing::device {

namespace {

constexpr c10::DeviceType kCuda = c10::DeviceType::CUDA;
constexpr int kPoolSize = 32;

thread_local c10::DeviceIndex this_device = 0;
thread_local std::array<c10::StreamId, kMostDevices> this_stream{};

long number_in(const char* variable, long otherwise) {
  const char* text = std::getenv(variable);
  return text != nullptr ? std::strtol(text, nullptr, 10) : otherwise;
}

long visible_devices() {
  const char* text = std::getenv("CUDA_VISIBLE_DEVICES");
  if (text == nullptr) return kMostDevices;
  const std::string numbers = text;
  return numbers.empty() ? 0 : 1 + std::count(numbers.begin(), numbers.end(), ',');
}

struct RecordedEvent {
  c10::Stream stream;
  Clock clock;
  std::chrono::steady_clock::time_point at;
  bool was_asked = false;  // whether it is over
};

RecordedEvent* recorded(void* event) { return static_cast<RecordedEvent*>(event); }

class TestDeviceGuard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return kCuda; }
  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device before = getDevice();
    setDevice(device);
    return before;
  }
  c10::Device getDevice() const override { return {kCuda, this_device}; }
  void setDevice(c10::Device device) const override { set_current_device(device.index()); }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (device.index() >= 0) this_device = device.index();
  }
  c10::DeviceIndex deviceCount() const noexcept override {
    const c10::DeviceIndex devices = number_of_devices();
    if (devices > 0) note_use();
    return devices;
  }

  c10::Stream getStream(c10::Device device) const override { return current_stream(device.index()); }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::DEFAULT, with_index(device));
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool high_priority) const override {
    return stream_from_pool(with_index(device).index(), high_priority);
  }
  c10::Stream getNewStream(c10::Device device, int priority) const override {
    return stream_from_pool(with_index(device).index(), priority < 0);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    c10::StreamId& current = this_stream.at(static_cast<size_t>(stream.device_index()));
    const c10::StreamId before = std::exchange(current, stream.id());
    return c10::Stream(c10::Stream::UNSAFE, stream.device(), before);
  }
  bool queryStream(const c10::Stream& stream) const override {
    note_host_knows(clock_of(stream));
    return true;
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    finish_pending_work();
    note_host_wait("synchronize stream", stream);
  }
  void synchronizeDevice(const c10::DeviceIndex device) const override {
    finish_pending_work();
    note_host_wait_for_device(device);
  }

  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex, const c10::EventFlag) const override {
    if (*event == nullptr) *event = new RecordedEvent{.stream = stream, .clock = {}, .at = {}};
    *recorded(*event) = {.stream = stream, .clock = clock_of(stream), .at = std::chrono::steady_clock::now()};
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event != nullptr) note_stream_wait(stream, recorded(event)->stream, recorded(event)->clock);
  }
  bool queryEvent(void* event) const override {
    if (event == nullptr || host_has_waited_for(recorded(event)->clock)) return true;
    // As on a device that takes its time: so a program goes both ways.
    if (!std::exchange(recorded(event)->was_asked, true)) return false;
    note_host_knows(recorded(event)->clock);
    return true;
  }
  void synchronizeEvent(void* event) const override {
    if (event == nullptr) return;
    finish_pending_work();
    note_host_wait("synchronize event", recorded(event)->stream, recorded(event)->clock);
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override { delete recorded(event); }
  double elapsedTime(void* from, void* to, const c10::DeviceIndex) const override {
    return std::chrono::duration<double, std::milli>(recorded(to)->at - recorded(from)->at).count();
  }

  void recordDataPtrOnStream(const c10::DataPtr& pointer, const c10::Stream& stream) const override {
    use_on_stream(pointer.get(), stream);
  }

 private:
  static c10::Device with_index(c10::Device device) {
    return {kCuda, device.has_index() ? device.index() : this_device};
  }
};

C10_REGISTER_GUARD_IMPL(CUDA, TestDeviceGuard)

}  // namespace

c10::DeviceIndex number_of_devices() {
  static const long count = number_in("FSDP_TEST_DEVICES", 1);
  return static_cast<c10::DeviceIndex>(std::min({count, visible_devices(), long{kMostDevices}}));
}

c10::DeviceIndex current_device() { return this_device; }

void set_current_device(c10::DeviceIndex device) {
  if (device < 0) return;
  TORCH_CHECK(device < number_of_devices(), "CUDA error: invalid device ordinal ", static_cast<int>(device), ", of ",
              static_cast<int>(number_of_devices()), " devices of the tests");
  this_device = device;
}

c10::Stream current_stream(c10::DeviceIndex device) {
  if (device < 0) device = this_device;
  return c10::Stream(c10::Stream::UNSAFE, {kCuda, device}, this_stream.at(static_cast<size_t>(device)));
}

c10::Stream stream_from_pool(c10::DeviceIndex device, bool high_priority) {
  static std::array<std::array<std::atomic<int>, 2>, kMostDevices> next{};
  const int number = next.at(static_cast<size_t>(device))[high_priority ? 1 : 0]++ % kPoolSize;
  return c10::Stream(c10::Stream::UNSAFE, {kCuda, device}, 1 + number + (high_priority ? kPoolSize : 0));
}

}  // namespace fsdp::testing::device
