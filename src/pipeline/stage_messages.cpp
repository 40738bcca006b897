#include "pipeline/stage_messages.h"

#include <utility>

#include "base/rank_names.h"
#include "pipeline/action_error.h"
#include "pipeline/step_facts.h"
#include "pipeline/tags.h"

namespace fsdp::pipeline {

using stages::StageAction;

void StageMessages::send(const Way& way) {
  links_.send(made_here_.extract(way).mapped(), layout_.rank_of(way.stage), stage_tag(way.stage, way.gradients));
}

void StageMessages::begin_receive(const Way& way) {
  const int peer = layout_.rank_of(way.source());
  at_place([&] { return wait_for(way); },
           [&] { arriving_.emplace(way, links_.receive(peer, stage_tag(way.stage, way.gradients))); });
}

Tensors StageMessages::take(const Way& way) {
  if (auto here = made_here_.extract(way)) return std::move(here.mapped());
  const StageAction receive{
      .kind = way.gradients ? StageAction::Kind::ReceiveBackward : StageAction::Kind::ReceiveForward,
      .stage = way.stage,
      .micro_batch = way.micro_batch};
  const ActionTimes::Scope wait(times_, receive, ActionTimes::Scope::Kind::Wait);
  return at_place([&] { return wait_for(way); }, [&] { return arriving_.extract(way).mapped().take(); });
}

std::string StageMessages::wait_for(const Way& way) const {
  return fmt::format("waiting for {} of stage {}, which is on {}", way.gradients ? "the gradients" : "the output",
                     way.source(), text_of_rank(name_of_rank(axis_, layout_.rank_of(way.source()))));
}

}  // namespace fsdp::pipeline
