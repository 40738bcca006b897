#include "pipeline/stage_parts.h"

#include <utility>

#include "engine/model.h"

namespace fsdp::pipeline {

StageParts::StageParts(World axis, StageLayout layout, StageBlocks blocks)
    : axis_(std::move(axis)),
      layout_(std::move(layout)),
      blocks_(std::move(blocks)),
      links_(axis_),
      ties_(blocks_, layout_, axis_.rank(), links_) {}

void StageParts::step_ran(const ModelScopes& models) {
  models_.assign(models.all().begin(), models.all().end());
  for (const auto& model : models.all()) model->set_other_parts(shared_from_this());
}

void StageParts::gradients_ended() {
  const auto models = std::exchange(models_, {});
  if (models.empty() || ties_.empty()) return;
  // The copies of a tied parameter may lie in several models of this rank.
  for (const auto& observed : models) {
    if (const auto model = observed.lock()) model->close_gradients("a step of the pipeline");
  }
  ties_.publish();
  links_.finish();
}

}  // namespace fsdp::pipeline
