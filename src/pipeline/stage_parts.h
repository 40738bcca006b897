// This rank's stages as a part of the whole model: what clipping, scaling and steps of a sharded stage have to do with
// the other stages.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "engine/other_parts.h"
#include "pipeline/model_scope.h"
#include "pipeline/tied_gradients.h"

namespace fsdp::pipeline {

class StageParts final : public engine::OtherParts, public std::enable_shared_from_this<StageParts> {
 public:
  // The arguments outlive it.
  StageParts(World axis, TiedGradients& ties, Links& links) : axis_(std::move(axis)), ties_(ties), links_(links) {}

  // A step of the pipeline has added gradients to these models' sums.
  void step_ran(const ModelScopes& models);

  // Publishes the gradients of tied parameters, once after each `step_ran`.
  void gradients_ended() override;
  std::vector<layout::Range> counted_elsewhere(const torch::Tensor& parameter) const override {
    return ties_.is_copy(parameter) ? std::vector<layout::Range>{{0, parameter.numel()}} : std::vector<layout::Range>();
  }
  std::vector<torch::Tensor> all_gather(const torch::Tensor& tensor) override { return axis_.all_gather(tensor); }

 private:
  World axis_;
  TiedGradients& ties_;
  Links& links_;
  std::vector<std::weak_ptr<engine::Model>> models_;  // with gradients to publish
};

}  // namespace fsdp::pipeline
