// The operations of a whole group on tensors: those that a World offers, and some more.
//
// Every rank calls them in the same order, from one thread at a time. Tensors are contiguous, and on the device of the
// group's units or on the CPU. Sums are in rank order, 16-bit floating types in fp32.
#pragma once

#include <torch/types.h>

#include <string>
#include <vector>

#include "collectives/call_facts.h"

namespace fsdp::collectives {

class TensorOperations {
 public:
  virtual ~TensorOperations() = default;

  // The next operation also compares these facts, without an exchange of its own; null: it compares none. If they
  // differ, it changes no tensor, and an operation that returns tensors returns none.
  virtual void compare(CallFacts* facts) { static_cast<void>(facts); }
  virtual void barrier() = 0;
  virtual void all_reduce_(torch::Tensor& tensor) = 0;
  virtual void broadcast_(torch::Tensor& tensor, int source) = 0;
  // `tensor` has one shape on all ranks. `purpose` is this rank's action in the peers' messages.
  virtual std::vector<torch::Tensor> all_gather(const torch::Tensor& tensor, const std::string& purpose) = 0;
};

}  // namespace fsdp::collectives
