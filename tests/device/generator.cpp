#include "device/generator.h"

#include <ATen/CPUGeneratorImpl.h>

#include <array>

#include "device/arena.h"
#include "device/streams.h"

namespace fsdp::testing::device {

namespace {

class TestGenerator final : public c10::GeneratorImpl {
 public:
  TestGenerator(c10::DeviceIndex device, at::Generator inner)
      : GeneratorImpl({c10::kCUDA, device}, c10::DispatchKeySet(c10::DispatchKey::CUDA)), inner_(std::move(inner)) {}

  const at::Generator& inner() const { return inner_; }
  void set_current_seed(uint64_t seed) override { inner_.set_current_seed(seed); }
  void set_offset(uint64_t) override {}
  uint64_t get_offset() const override { return 0; }
  uint64_t current_seed() const override { return inner_.current_seed(); }
  uint64_t seed() override { return inner_.seed(); }
  void set_state(const c10::TensorImpl& state) override { inner_.unsafeGetGeneratorImpl()->set_state(state); }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    return inner_.unsafeGetGeneratorImpl()->get_state();
  }

 private:
  TestGenerator* clone_impl() const override { return new TestGenerator(device().index(), inner_.clone()); }

  at::Generator inner_;
};

}  // namespace

at::Generator new_generator(c10::DeviceIndex device) {
  return at::make_generator<TestGenerator>(device < 0 ? current_device() : device, at::detail::createCPUGenerator());
}

const at::Generator& default_generator(c10::DeviceIndex device) {
  static auto* all = [] {
    auto* made = new std::array<at::Generator, kMostDevices>;
    for (c10::DeviceIndex i = 0; i < kMostDevices; ++i) (*made)[static_cast<size_t>(i)] = new_generator(i);
    return made;
  }();
  return all->at(static_cast<size_t>(device < 0 ? current_device() : device));
}

at::Generator on_cpu(const at::Generator& generator) {
  const auto* ours = dynamic_cast<const TestGenerator*>(generator.unsafeGetGeneratorImpl());
  return ours != nullptr ? ours->inner() : generator;
}

}  // namespace fsdp::testing::device
