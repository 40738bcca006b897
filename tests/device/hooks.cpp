// What LibTorch asks CUDA, through the hooks that it has for a library of CUDA that is loaded or not.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/CUDAHooksInterface.h>

#include <array>

#include "device/accesses.h"
#include "device/arena.h"
#include "device/fork_check.h"
#include "device/generator.h"
#include "device/pending.h"
#include "device/pinned.h"
#include "device/streams.h"

namespace fsdp::testing::device {

namespace {

// The class's name is the key that LibTorch looks for.
struct CUDAHooks final : at::CUDAHooksInterface {
  explicit CUDAHooks(at::CUDAHooksArgs) {}

  void init() const override { note_use(); }
  bool hasCUDA() const override { return true; }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return number_of_devices() > 0; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return number_of_devices() > 0; }
  c10::DeviceIndex deviceCount() const override { return counted(); }
  int getNumGPUs() const override { return counted(); }
  c10::DeviceIndex current_device() const override { return device::current_device(); }
  c10::DeviceIndex getCurrentDevice() const override { return device::current_device(); }
  void setCurrentDevice(c10::DeviceIndex device) const override { set_current_device(device); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex device) const override {
    const c10::DeviceIndex before = device::current_device();
    set_current_device(device);
    return before;
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex device) const override { return exchangeDevice(device); }
  void deviceSynchronize(c10::DeviceIndex device) const override {
    finish_pending_work();
    note_host_wait_for_device(device < 0 ? device::current_device() : device);
  }

  c10::Device getDeviceFromPtr(void* pointer) const override {
    for (c10::DeviceIndex device = 0; device < number_of_devices(); ++device)
      if (arena_of(device).contains(pointer)) return {c10::kCUDA, device};
    return c10::kCPU;
  }
  bool isPinnedPtr(const void* pointer) const override { return is_pinned(pointer); }
  c10::Allocator* getPinnedMemoryAllocator() const override { return &pinned_allocator(); }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex device) const override { return default_generator(device); }
  at::Generator getNewGenerator(c10::DeviceIndex device) const override { return new_generator(device); }

 private:
  static c10::DeviceIndex counted() {
    const c10::DeviceIndex devices = number_of_devices();
    if (devices > 0) note_use();
    return devices;
  }
};

}  // namespace

}  // namespace fsdp::testing::device

namespace at {
using fsdp::testing::device::CUDAHooks;
REGISTER_CUDA_HOOKS(CUDAHooks)
}  // namespace at
