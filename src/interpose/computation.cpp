#include "interpose/computation.h"

#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/types.h>

#include <chrono>
#include <optional>
#include <utility>

#include "interpose/key.h"

namespace fsdp::interpose {

namespace {

// The device of an argument that computes beside the thread that calls it.
std::optional<c10::Device> device_to_wait_for(const Computation& computation) {
  for (size_t i = 0; i < computation.arguments(); ++i) {
    const c10::IValue& value = computation.argument(i);
    if (value.isTensor() && value.toTensor().defined() && !value.toTensor().is_cpu()) return value.toTensor().device();
  }
  return std::nullopt;
}

std::chrono::steady_clock::time_point time_behind(std::optional<c10::Device> device) {
  if (device) c10::impl::VirtualGuardImpl(device->type()).synchronizeDevice(device->index());
  return std::chrono::steady_clock::now();
}

}  // namespace

void Computation::compute() {
  const c10::impl::ExcludeDispatchKeyGuard inside(kResultsKey);
  operation_.redispatchBoxed(keys_ & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kResultsKey), &stack_);
}

double Computation::timed_compute() {
  const std::optional<c10::Device> device = device_to_wait_for(*this);
  const auto begin = time_behind(device);
  compute();
  return std::chrono::duration<double>(time_behind(device) - begin).count();
}

void Computation::give(std::vector<c10::IValue> results) {
  torch::jit::drop(stack_, arguments());
  for (c10::IValue& result : results) stack_.push_back(std::move(result));
}

std::vector<c10::IValue> Computation::results() const {
  return torch::jit::last(stack_, operation_.schema().returns().size()).vec();
}

}  // namespace fsdp::interpose
