// The surroundings of a call, which decide its result together with its arguments: the calling thread's modes, and the
// random numbers to come.
//
// Device-generic: the default generators of whatever devices take part, by ATen's interface alone.
#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/AutogradState.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/types.h>

#include <utility>
#include <vector>

namespace fsdp::interpose {

// Those of one moment, on one thread. Restored on any.
class Surroundings {
 public:
  // As they are now, with the default generators of the CPU and of the tensors' devices.
  explicit Surroundings(const std::vector<torch::Tensor>& tensors);
  // Drops the states of generators without draws since: 5 KB each on the CPU.
  void forget_undrawn();

  // They are here while this lives, on this thread, and as before afterwards; the generators' states are everybody's.
  class Restored;

 private:
  using GeneratorStates = std::vector<std::pair<at::Generator, torch::Tensor>>;

  c10::AutogradState autograd_;
  c10::impl::LocalDispatchKeySet keys_;  // autocast, too: it is on where its key is not excluded
  std::vector<std::pair<c10::DeviceType, torch::ScalarType>> autocast_dtypes_;
  bool autocast_caches_;
  GeneratorStates generators_;
};

class Surroundings::Restored {
 public:
  explicit Restored(const Surroundings& then);
  ~Restored();
  Restored(const Restored&) = delete;
  Restored& operator=(const Restored&) = delete;

 private:
  c10::AutogradState autograd_;
  std::vector<std::pair<c10::DeviceType, torch::ScalarType>> autocast_dtypes_;
  bool autocast_caches_;
  GeneratorStates generators_;
  c10::impl::ForceDispatchKeyGuard keys_;
};

}  // namespace fsdp::interpose
