// The tensors that a checkpointed function was called with, kept until the backward calls it again.
//
// Autograd keeps them, as it would for a node: inside of another checkpoint or scope of saved tensors they are kept as
// those say. Not for concurrent use.
#pragma once

#include <c10/core/TensorImpl.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/types.h>

#include <cstdint>
#include <vector>

namespace fsdp::interpose {

class KeptInputs {
 public:
  explicit KeptInputs(const std::vector<torch::Tensor>& inputs);

  // The same values: leaves themselves, others without the graph behind them, but requiring gradients where they did.
  // Throws Error where one was changed in place since.
  std::vector<torch::Tensor> again() const;

 private:
  struct Input {
    torch::autograd::SavedVariable saved;
    c10::VariableVersion version;  // counts its changes, and outlives it
    uint32_t expected;
  };

  static torch::Tensor again(const Input& input);

  std::vector<Input> inputs_;  // undefined ones as well
};

}  // namespace fsdp::interpose
