#include "plan/held_activations.h"

#include <algorithm>

#include "base/error.h"

namespace fsdp::plan {

namespace {

using Kind = stages::StageAction::Kind;

// Sums over the stages and micro-batches of a rank.
struct Held {
  double kept = 0, outputs = 0, later = 0;
};

}  // namespace

HeldBytes most_held(std::span<const stages::StageAction> actions, const std::vector<StageBytes>& stages) {
  Held held;
  HeldBytes most;
  // While a pass of a stage runs, for which something more is there.
  const auto count = [&](double more) {
    most.activations = std::max(most.activations, held.kept + held.later + more);
    most.outputs = std::max(most.outputs, held.outputs);
  };
  for (const auto& action : actions) {
    if (!stages::is_pass(action.kind)) continue;
    FSDP_CHECK(action.stage >= 0 && action.stage < std::ssize(stages),
               "plan: found a pass of stage {}, expected one of the {} stages whose bytes are given.", action.stage,
               stages.size());
    const StageBytes& stage = stages[static_cast<size_t>(action.stage)];
    if (action.kind == Kind::Forward) {
      held.kept += stage.kept;
      held.outputs += stage.output;
      count(0);
    } else if (stages::makes_input_gradient(action.kind)) {
      count(stage.most - stage.kept);
      held.kept -= stage.kept;
      held.outputs -= stage.output;
      if (action.kind == Kind::InputGradient) held.later += stage.later;
      count(0);
    } else {
      held.later -= stage.later;
    }
  }
  return most;
}

}  // namespace fsdp::plan
