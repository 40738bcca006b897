// This rank's stages as a part of the whole model. It owns their blocks, their messages to other stages and the
// gradients of tied parameters. Clipping, scaling and steps of sharded stages reach the other stages through it.
//
// The models of sharded stages share it, so it outlives the pipeline where an optimizer's step is yet to come.
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
  StageParts(World axis, StageLayout layout, StageBlocks blocks);
  StageParts(const StageParts&) = delete;  // its members know each other
  StageParts& operator=(const StageParts&) = delete;

  const StageLayout& layout() const { return layout_; }
  const StageBlocks& blocks() const { return blocks_; }
  Links& links() { return links_; }
  TiedGradients& ties() { return ties_; }

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
  const StageLayout layout_;
  const StageBlocks blocks_;
  Links links_;
  TiedGradients ties_;
  std::vector<std::weak_ptr<engine::Model>> models_;  // with gradients to publish
};

}  // namespace fsdp::pipeline
