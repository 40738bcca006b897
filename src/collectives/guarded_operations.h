// The operations of a group whose backend offers messages: each runs in the group's guard, which turns a failure into
// the group's first error.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "collectives/tensor_collectives.h"
#include "collectives/tensor_operations.h"

namespace fsdp::collectives {

// `Guard` is called with the operation's name and a function to run, and returns what that returns.
template <typename Guard>
class GuardedOperations final : public TensorOperations {
 public:
  // The transport outlives this.
  GuardedOperations(Transport& transport, Guard guard) : collectives_(transport), guard_(std::move(guard)) {}

  void compare(CallFacts* facts) override { collectives_.compare(facts); }
  void barrier() override {
    guard_("barrier", [&] { collectives_.barrier(); });
  }
  void all_reduce_(torch::Tensor& tensor) override {
    guard_("all_reduce", [&] { collectives_.all_reduce_(tensor); });
  }
  void broadcast_(torch::Tensor& tensor, int source) override {
    guard_("broadcast", [&] { collectives_.broadcast_(tensor, source); });
  }
  std::vector<torch::Tensor> all_gather(const torch::Tensor& tensor, const std::string& purpose) override {
    return guard_("all_gather", [&] { return collectives_.all_gather(tensor, purpose); });
  }

 private:
  TensorCollectives collectives_;
  Guard guard_;
};

}  // namespace fsdp::collectives
