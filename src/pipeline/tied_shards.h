// A tied parameter in a sharded stage: its values, and its gradient after its sum has ended.
#pragma once

#include <torch/types.h>

#include <memory>

#include "engine/model.h"

namespace fsdp::pipeline {

// The whole values of a sharded parameter, in fp32. A collective of the model, with which nothing else is full.
torch::Tensor values_of(engine::Model& model, const torch::Tensor& parameter);

// A parameter of a sharded model.
class ShardedGradient {
 public:
  ShardedGradient(std::shared_ptr<engine::Model> model, const torch::Tensor& parameter);

  // The whole gradient, [numel] in the order of the parameter's memory, from all ranks of the model. Undefined if there
  // is none. A collective of the model.
  torch::Tensor whole() const;
  // Writes this rank's part of a whole one.
  void write(const torch::Tensor& whole) const;

 private:
  const ShardedParameter& piece() const { return model_->parameters()[index_]; }

  std::shared_ptr<engine::Model> model_;
  size_t index_ = 0;
};

}  // namespace fsdp::pipeline
