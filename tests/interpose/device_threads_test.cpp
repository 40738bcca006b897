// A process with a device that autograd has threads for. They are started once, for the first engine that executes.
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <gmock/gmock.h>
#include <torch/torch.h>

#include "interpose/saved_tensors.h"

namespace fsdp::interpose {
namespace {

constexpr c10::DeviceType kDevice = c10::DeviceType::PrivateUse1;

// One device with one stream.
class OneDevice final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return kDevice; }
  c10::Device exchangeDevice(c10::Device) const override { return getDevice(); }
  c10::Device getDevice() const override { return {kDevice, 0}; }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::Stream getStream(c10::Device device) const override { return c10::Stream(c10::Stream::DEFAULT, device); }
  c10::Stream exchangeStream(c10::Stream stream) const override { return stream; }
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
};

struct OneDeviceHooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
};

// Threads of autograd use both until the process ends.
void register_device() {
  c10::register_privateuse1_backend("one");
  at::RegisterPrivateUse1HooksInterface(new OneDeviceHooks);
  static const c10::impl::DeviceGuardImplRegistrar guard(kDevice, new OneDevice);
}

// Without bytes: the device has no operators.
torch::Tensor on_device() {
  c10::Storage storage(c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), 0, at::DataPtr(nullptr, c10::Device(kDevice, 0)), nullptr, false));
  auto tensor = c10::make_intrusive<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet({c10::DispatchKey::PrivateUse1, c10::DispatchKey::AutogradPrivateUse1}),
      caffe2::TypeMeta::Make<float>());
  tensor->set_sizes_contiguous({0});
  return torch::Tensor(std::move(tensor));
}

struct ToDevice final : torch::autograd::Function<ToDevice> {
  static torch::Tensor forward(torch::autograd::AutogradContext*, const torch::Tensor&) { return on_device(); }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 const torch::autograd::variable_list&) {
    return {torch::full({2}, 3.0)};
  }
};

torch::Tensor gradient_through_device() {
  const torch::Tensor leaf = torch::ones({2}, torch::requires_grad());
  const torch::Tensor result = ToDevice::apply(leaf);
  torch::autograd::backward({result}, {on_device()});
  return leaf.grad();
}

TEST(DeviceThreads, AreThoseOfTheEngineThatRanBeforeOurs) {
  register_device();
  EXPECT_TRUE(torch::equal(gradient_through_device(), torch::full({2}, 3.0)));
  install_saved_tensor_engine();
  EXPECT_TRUE(torch::equal(gradient_through_device(), torch::full({2}, 3.0)));
}

}  // namespace
}  // namespace fsdp::interpose
