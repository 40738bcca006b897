// The rest of a model of which a sharded model is one part, on ranks outside of the model's group. They hold the other
// parts of its divided layers, along a tensor axis, or the other stages of a pipeline.
//
// All ranks call it at the same places of their programs, without the model's lock.
#pragma once

#include <torch/types.h>

#include <vector>

#include "layout/unit_layout.h"

namespace fsdp::engine {

class OtherParts {
 public:
  virtual ~OtherParts() = default;
  // The sum of this part's gradients has ended. May write the gradients of pieces. Repeated calls change nothing.
  virtual void gradients_ended() {}
  // Elements, in the order of the parameter's memory, that a norm over all parts counts in another part.
  virtual std::vector<layout::Range> counted_elsewhere(const torch::Tensor& parameter) const = 0;
  // True if this part holds a part of the parameter alone.
  virtual bool divides(const torch::Tensor&) const { return false; }
  // Every part's tensor: of one shape and dtype.
  virtual std::vector<torch::Tensor> all_gather(const torch::Tensor& tensor) = 0;
};

}  // namespace fsdp::engine
