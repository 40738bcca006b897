// The rest of a model of which a sharded model is one part, on ranks outside of the model's group. They hold the other
// parts of its divided layers, along a tensor axis, or the other stages of a pipeline.
//
// All ranks call it at the same places of their programs.
#pragma once

#include <torch/types.h>

#include <cstddef>
#include <vector>

#include "layout/unit_layout.h"

namespace fsdp::engine {

// Calls of this class are made without the model's lock.
class OtherParts {
 public:
  virtual ~OtherParts() = default;
  // The sum of this part's gradients has ended. May write the gradients of pieces. Repeated calls change nothing.
  virtual void gradients_ended() {}
  // Elements, in the order of the parameter's memory, that a norm over all parts counts in another part.
  virtual std::vector<layout::Range> counted_elsewhere(const torch::Tensor& parameter) const = 0;
  // Every part's tensor: of one shape and dtype.
  virtual std::vector<torch::Tensor> all_gather(const torch::Tensor& tensor) = 0;
};

// A parameter of which each rank of an axis holds a part.
struct AxisDivision {
  std::vector<int64_t> shape = {};  // of the whole parameter
  int64_t dim = 0;                  // the divided dimension
  // By rank, along `dim`. A rank's tensor has its ranges one after the other. Ranks may hold the same elements.
  std::vector<std::vector<layout::Range>> ranges = {};
};

// An axis over which layers of the model are divided.
class DividingAxis : public OtherParts {
 public:
  // Null: each rank of the axis holds all of the parameter.
  virtual const AxisDivision* division_of(const torch::Tensor& parameter) const = 0;
  // May be called with the model's lock, so not by way of a World. By rank: `to[r]` goes to rank r, whose `from` has a
  // tensor of the same shape and dtype in this rank's place. Empty tensors and this rank's own are left alone.
  virtual void exchange(const std::vector<torch::Tensor>& to, const std::vector<torch::Tensor>& from) = 0;
  virtual int rank() const = 0;
  virtual int size() const = 0;
};

}  // namespace fsdp::engine
