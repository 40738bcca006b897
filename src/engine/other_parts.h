// The rest of a model of which a sharded model is one part: for example the other stages of a pipeline, on ranks
// outside of the model's group.
//
// All ranks call it at the same places of their programs, without the model's lock.
#pragma once

#include <torch/types.h>

#include <vector>

namespace fsdp::engine {

class OtherParts {
 public:
  virtual ~OtherParts() = default;
  // The sum of this part's gradients has ended. May write the gradients of pieces. Repeated calls change nothing.
  virtual void gradients_ended() = 0;
  // True if a norm over all parts counts the parameter in another part.
  virtual bool counted_elsewhere(const torch::Tensor& parameter) const = 0;
  // Every part's tensor: of one shape and dtype, on the CPU.
  virtual std::vector<torch::Tensor> all_gather(const torch::Tensor& tensor) = 0;
};

}  // namespace fsdp::engine
