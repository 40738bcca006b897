// The tensors that a checkpointed function was called with, kept until the backward calls it again.
//
// Autograd keeps them, as it would for a node: inside of another checkpoint or scope of saved tensors they are kept as
// those say. Not for concurrent use.
#pragma once

#include <torch/csrc/autograd/saved_variable.h>
#include <torch/types.h>

#include <cstdint>
#include <vector>

namespace fsdp::interpose {

class KeptInputs {
 public:
  explicit KeptInputs(const std::vector<torch::Tensor>& inputs);

  // The same values: leaves themselves, others without the graph behind them, but requiring gradients where they did.
  // Throws Error where one was changed in place since; inside of another checkpoint, that one finds it.
  std::vector<torch::Tensor> again() const;

 private:
  void check_unchanged(size_t input) const;

  std::vector<torch::autograd::SavedVariable> saved_;
  std::vector<int64_t> versions_;
};

}  // namespace fsdp::interpose
