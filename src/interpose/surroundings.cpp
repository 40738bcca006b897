#include "interpose/surroundings.h"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>

#include <algorithm>
#include <mutex>

namespace fsdp::interpose {

namespace {

torch::Tensor state_of(at::Generator& generator) {
  const std::lock_guard lock(generator.mutex());
  return generator.get_state();
}

void set_state_of(at::Generator& generator, const torch::Tensor& state) {
  const std::lock_guard lock(generator.mutex());
  generator.set_state(state);
}

// The CPU first; each once.
std::vector<torch::Device> devices_of(const std::vector<torch::Tensor>& tensors) {
  std::vector<torch::Device> devices{torch::kCPU};
  for (const torch::Tensor& tensor : tensors) {
    if (tensor.defined() && std::ranges::find(devices, tensor.device()) == devices.end() && !tensor.is_meta())
      devices.push_back(tensor.device());
  }
  return devices;
}

}  // namespace

Surroundings::Surroundings(const std::vector<torch::Tensor>& tensors)
    : autograd_(c10::AutogradState::get_tls_state()),
      keys_(c10::impl::tls_local_dispatch_key_set()),
      autocast_caches_(at::autocast::is_autocast_cache_enabled()) {
  for (const torch::Device& device : devices_of(tensors)) {
    autocast_dtypes_.emplace_back(device.type(), at::autocast::get_autocast_dtype(device.type()));
    at::Generator generator = at::globalContext().defaultGenerator(device);
    torch::Tensor state = state_of(generator);
    generators_.emplace_back(std::move(generator), std::move(state));
  }
}

void Surroundings::forget_undrawn() {
  std::erase_if(generators_, [](auto& one) { return one.second.equal(state_of(one.first)); });
}

// Autocast's copies of weights are made anew for the function and forgotten after it, as at the end of any region.
Surroundings::Restored::Restored(const Surroundings& then)
    : autograd_(c10::AutogradState::get_tls_state()),
      autocast_caches_(at::autocast::is_autocast_cache_enabled()),
      keys_(then.keys_) {
  c10::AutogradState::set_tls_state(then.autograd_);
  at::autocast::increment_nesting();
  at::autocast::set_autocast_cache_enabled(then.autocast_caches_);
  for (const auto& [type, dtype] : then.autocast_dtypes_) {
    autocast_dtypes_.emplace_back(type, at::autocast::get_autocast_dtype(type));
    at::autocast::set_autocast_dtype(type, dtype);
  }
  for (auto [generator, state] : then.generators_) {
    generators_.emplace_back(generator, state_of(generator));
    set_state_of(generator, state);
  }
}

Surroundings::Restored::~Restored() {
  for (auto& [generator, state] : generators_) set_state_of(generator, state);
  for (const auto& [type, dtype] : autocast_dtypes_) at::autocast::set_autocast_dtype(type, dtype);
  at::autocast::set_autocast_cache_enabled(autocast_caches_);
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  c10::AutogradState::set_tls_state(autograd_);
}

}  // namespace fsdp::interpose
