#include "planning/held_activations.h"

#include <algorithm>

namespace trainer {

namespace {

using Kind = fsdp::stages::StageAction::Kind;

// Sums over the stages and micro-batches of a rank.
struct Held {
  double kept = 0, outputs = 0, later = 0;
};

}  // namespace

HeldBytes most_held(std::span<const fsdp::stages::StageAction> actions, const std::vector<StageBytes>& stages) {
  Held held;
  HeldBytes most;
  // While a pass of a stage runs, for which something more is there.
  const auto count = [&](double more) {
    most.activations = std::max(most.activations, held.kept + held.later + more);
    most.outputs = std::max(most.outputs, held.outputs);
  };
  for (const auto& action : actions) {
    if (!fsdp::stages::is_pass(action.kind)) continue;
    const StageBytes& stage = stages[static_cast<size_t>(action.stage)];
    if (action.kind == Kind::Forward) {
      held.kept += stage.kept;
      held.outputs += stage.output;
      count(0);
    } else if (fsdp::stages::makes_input_gradient(action.kind)) {
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

}  // namespace trainer
