#include "engine/events.h"

#include <string_view>
#include <utility>

#include "engine/full_scope.h"
#include "engine/piece_operators.h"
#include "interpose/piece_storage.h"
#include "interpose/recomputation.h"

namespace fsdp::engine {

using schedule::Mode;

void Events::operator_begins(std::span<const int> units, std::optional<int> written, const char* operation) {
  const std::lock_guard lock(parts_.mutex);
  if (parts_.full_scope != nullptr) return parts_.full_scope->check_use(units, written, operation);
  parts_.driver.publish_pieces();
  const Mode now = mode();
  const int64_t touched = parts_.recorder.touched();
  FSDP_CHECK_UNIT(!written || operation != std::string_view(interpose::kSetData), parts_.units[*written]->name,
                  "{} replaces a sharded parameter. Convert before shard: module->to(...) first, then fsdp::shard. To "
                  "write the weights in another dtype, use save_pretrained. If forward initialises itself from its "
                  "first batch, run one forward before fsdp::shard.",
                  operation);
  parts_.parameter_writes.check(units, written, operation);
  parts_.performer.event_began_at(touched);
  parts_.driver.operator_begins(units, now, interpose::runs_again(), operation);
  if (written) begin_write(units);
  for (int unit : units) parts_.units[unit]->allow_access();
  if (now != Mode::ForwardWithoutGradients) parts_.activations.unit_in_use(units[0]);
  parts_.recorder.computes(now == Mode::Backward ? Activity::Backward : Activity::Forward, units[0], touched);
}

void Events::begin_write(std::span<const int> units) {
  try {
    parts_.parameter_writes.begin(units);
  } catch (...) {
    parts_.parameter_writes.end(units);
    parts_.driver.operator_ends(units);
    throw;
  }
}

void Events::operator_ends(std::span<const int> units) noexcept {
  const std::lock_guard lock(parts_.mutex);
  if (parts_.full_scope != nullptr) return;
  parts_.parameter_writes.end(units);
  parts_.driver.operator_ends(units);
  for (int unit : units) {
    if (!parts_.driver.schedule().pinned(unit)) parts_.units[unit]->forbid_access();
  }
}

void Events::operator_wrote(const char* operation) {
  const std::lock_guard lock(parts_.mutex);
  if (parts_.full_scope == nullptr) parts_.parameter_writes.finish(operation, mode());
}

// If the versions of the parameters rise between the making and the use of a view, the view looks outdated by a write.
// Autograd would then rebuild its graph, in another order.
void Events::parameter_viewed(int unit) {
  const std::lock_guard lock(parts_.mutex);
  if (parts_.full_scope != nullptr) return;
  parts_.driver.publish_pieces();
  if (parts_.link->changed) parts_.driver.parameter_viewed(unit, mode());
}

Mode Events::mode() {
  if (parts_.note_backward()) return Mode::Backward;
  return torch::GradMode::is_enabled() ? Mode::Forward : Mode::ForwardWithoutGradients;
}

void Events::pieces_used(const interpose::PieceUse& use, const char* operation) {
  const std::lock_guard lock(parts_.mutex);
  if (parts_.units[0]->is_divided()) check_element_wise(use, operation);
  check_takes_no_parameter(use, operation);
  check_keeps_form(use, operation);
  if (!use.gradients.empty()) end_sums(use, operation);
  if (!use.writes_parameters || parts_.driver.pieces_changed()) return;
  parts_.note_backward();
  parts_.driver.pieces_change(operation);
}

// A hook of the backward may read it, too: a gradient that is there, or none yet.
void Events::gradient_read() {
  const std::lock_guard lock(parts_.mutex);
  if (parts_.note_backward()) return;
  parts_.driver.end_local_sums("grad() of a piece");
}

// Those of the gradients that are used: another optimizer's pieces may be summed up further.
void Events::end_sums(const interpose::PieceUse& use, const char* operation) {
  parts_.note_backward();
  parts_.driver.end_local_sums(operation);
  parts_.scale_now();
  parts_.gradients.end_sums(use.gradients, sets_to_zero(operation));
}

torch::Tensor Events::gradient_destination(int id, int parameter) {
  const std::lock_guard lock(parts_.mutex);
  torch::NoGradGuard no_grad;
  parts_.note_backward();
  ShardedUnit& unit = *parts_.units[id];
  if (unit.dtype() != unit.gradients.dtype() || !parts_.driver.opens_gradient_in_place(id)) return {};
  return unit.gradients.place_of(parameter);
}

void Events::gradient_arrives(int id, int parameter, torch::Tensor gradient) {
  // A custom function may return a sharded parameter; reading it is a touch, which takes the lock itself.
  if (interpose::UnitStorage::of(gradient)) gradient = gradient.clone();
  const std::lock_guard lock(parts_.mutex);
  torch::NoGradGuard no_grad;
  parts_.note_backward();
  parts_.performer.event_began_at(parts_.recorder.touched());
  ShardedUnit& unit = *parts_.units[id];
  parts_.driver.check_gradient(id);
  unit.parameters[parameter].check_attached("backward");
  parts_.driver.check_not_failed();
  unit.sum.check_can_add(parameter, unit.parameters[parameter].name());
  if (!parts_.driver.gradient_comes(id, unit.gradients.has_late()))
    return unit.gradients.keep_late(parameter, std::move(gradient));
  parts_.performer.write_gradient(id, parameter, std::move(gradient));
  parts_.driver.gradient_is_there(id, unit.gradients.trainable());
}

void Events::backward_ends(int task) {
  const std::lock_guard lock(parts_.mutex);
  if (!parts_.backward.close(task)) return;
  interpose::ActivationWatch::none_in_use();
  parts_.recorder.computes_nothing();
  parts_.performer.event_began_at(parts_.recorder.touched());
  torch::NoGradGuard no_grad;
  parts_.driver.backward_ends();
}

bool Events::steps_in_backward() const {
  const std::lock_guard lock(parts_.mutex);
  return parts_.driver.machine().early_step() == schedule::EarlyStepPhase::LastBackward;
}

}  // namespace fsdp::engine
