// The way of a gradient from autograd into the unit's buffer.
#include <algorithm>
#include <utility>

#include "base/error.h"
#include "engine/model.h"

namespace fsdp::engine {

// A unit that is used in several places would be opened by the first and wait for the last: its gradients are copied.
torch::Tensor Model::gradient_destination(int id, int parameter) {
  std::lock_guard lock(mutex_);
  torch::NoGradGuard no_grad;
  note_mode();
  Unit& unit = *units_[id];
  if (alone() || unit.dtype() != reduce_dtype_ || !schedule_->used_once(id) || schedule_->reduced(id) ||
      schedule_->reduction_under_way(id) || piece_gradients_.closed() || !failure_.empty()) {
    return {};
  }
  guarded([&] { perform(schedule_->gradient_begins(id)); });
  return unit.gradients.place_of(parameter);
}

void Model::gradient_arrives(int id, int parameter, torch::Tensor gradient) {
  // A custom function may return a sharded parameter; reading it is a touch, which takes the lock itself.
  if (interpose::UnitStorage::of(gradient)) gradient = gradient.clone();
  std::lock_guard lock(mutex_);
  torch::NoGradGuard no_grad;
  note_mode();
  Unit& unit = *units_[id];
  piece_gradients_.check_open();
  if (step_.open()) check_not_stepped({&id, 1}, "a gradient");
  unit.parameters[parameter].check_attached("backward");
  if (!failure_.empty()) throw Error(failure_);
  communication_.late_gradients += schedule_->reduced(id);
  if (schedule_->reduction_under_way(id) && stalls(unit)) {
    unit.gradients.keep_late(parameter, std::move(gradient));
    return schedule_->gradient_kept(id);
  }
  guarded([&] { perform(schedule_->gradient_begins(id)); });
  write_gradient(unit, parameter, std::move(gradient));
  const auto trainable = std::count_if(unit.parameters.begin(), unit.parameters.end(),
                                       [](const auto& one) { return one.tensor().requires_grad(); });
  guarded([&] { perform(schedule_->gradient_ends(id, static_cast<int>(trainable))); });
  if (!step_.candidates().empty()) step_early(recorder_.touched());
}

// Whether the unit's reduction ends only when this rank goes on.
bool Model::stalls(Unit& unit) {
  bool begun = true;
  guarded([&] { begun = !unit.gradients.has_late() && unit.collectives->wait_begun(); });
  return !begun;
}

void Model::write_gradient(Unit& unit, int parameter, torch::Tensor gradient) {
  FSDP_CHECK_UNIT(unit.gradients.has_place(parameter), unit.name,
                  "{} was unfrozen between two backwards of no_sync scopes. Call step and zero_grad before.",
                  unit.parameters[parameter].name());
  unit.gradients.write(parameter, std::move(gradient));
}

}  // namespace fsdp::engine
