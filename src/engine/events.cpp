#include "engine/events.h"

#include <string_view>
#include <utility>

#include "engine/full_scope.h"
#include "engine/piece_operators.h"
#include "engine/refuse.h"
#include "interpose/piece_storage.h"
#include "interpose/recomputation.h"

namespace fsdp::engine {

using schedule::Call;
using schedule::Mode;

void Events::operator_begins(std::span<const int> units, std::optional<int> written, const char* operation) {
  const std::lock_guard lock(parts_.mutex);
  if (parts_.full_scope != nullptr) return parts_.full_scope->check_use(units, written, operation);
  parts_.writer.publish_pieces();
  const Mode now = mode();
  const int64_t touched = parts_.recorder.touched();
  FSDP_CHECK_UNIT(!written || operation != std::string_view(interpose::kSetData), parts_.units[*written]->name,
                  "{} replaces a sharded parameter. Convert before shard: module->to(...) first, then fsdp::shard. To "
                  "write the weights in another dtype, use save_pretrained. If forward initialises itself from its "
                  "first batch, run one forward before fsdp::shard.",
                  operation);
  parts_.parameter_writes.check(units, written, operation);
  check_call(parts_.machine, Call::UseParameter, operation, parts_.units[units[0]]->name);
  if (now == Mode::Forward) parts_.forward_begins();
  if (parts_.link->changed) check_changed(units[0], now);
  parts_.optimizer_step.check_not_stepped(units, operation);
  parts_.schedule.set_runs_again(interpose::runs_again());
  const schedule::Actions actions = parts_.schedule.operator_begins(units, now);
  try {
    perform(actions, operation);
    parts_.optimizer_step.step_early(touched);
    if (written) parts_.parameter_writes.begin(units);
  } catch (...) {
    parts_.parameter_writes.end(units);
    parts_.schedule.operator_ends(units);
    throw;
  }
  for (int unit : units) parts_.units[unit]->allow_access();
  if (now != Mode::ForwardWithoutGradients) parts_.activations.unit_in_use(units[0]);
  parts_.recorder.computes(now == Mode::Backward ? Activity::Backward : Activity::Forward, units[0], touched);
}

void Events::operator_ends(std::span<const int> units) noexcept {
  const std::lock_guard lock(parts_.mutex);
  if (parts_.full_scope != nullptr) return;
  parts_.parameter_writes.end(units);
  parts_.schedule.operator_ends(units);
  for (int unit : units) {
    if (!parts_.schedule.pinned(unit)) parts_.units[unit]->forbid_access();
  }
}

void Events::operator_wrote(const char* operation) {
  const std::lock_guard lock(parts_.mutex);
  if (parts_.full_scope == nullptr) parts_.parameter_writes.finish(operation, mode());
}

template <typename Text>
void Events::perform(const schedule::Actions& actions, const Text& operation) {
  if (actions.empty()) return parts_.executor.check_not_failed();
  parts_.executor.perform(actions, operation);
  parts_.optimizer_step.reduced(actions);
}

// If the versions of the parameters rise between the making and the use of a view, the view looks outdated by a write.
// Autograd would then rebuild its graph, in another order.
void Events::parameter_viewed(int unit) {
  const std::lock_guard lock(parts_.mutex);
  if (parts_.full_scope != nullptr) return;
  parts_.writer.publish_pieces();
  if (parts_.link->changed) check_changed(unit, mode());
}

// `unit` is the first to be used or viewed since the shards were written.
void Events::check_changed(int unit, Mode mode) {
  if (mode == Mode::Backward) refuse(schedule::Misuse::ShardsChanged, "", parts_.units[unit]->name);
  // Now, and not when they changed, so that the check above speaks before autograd's own.
  for (auto& each : parts_.units) {
    for (auto& parameter : each->parameters) parameter.mark_changed();
  }
  parts_.link->changed = false;
  parts_.activation_budget.step_ends();
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
  if (!use.writes_parameters || parts_.writer.pieces_changed()) return;
  parts_.check(Call::WriteState, operation);
  parts_.writer.pieces_change();
}

// A hook of the backward may read it, too: a gradient that is there, or none yet.
void Events::gradient_read() {
  const std::lock_guard lock(parts_.mutex);
  if (parts_.note_backward()) return;
  parts_.check(Call::CloseSum, "grad() of a piece");
  parts_.executor.check_not_failed();
  torch::NoGradGuard no_grad;
  interpose::Unwatched ours;
  parts_.post_backward.reduce_local_sums();
}

// Those of the gradients that are used: another optimizer's pieces may be summed up further.
void Events::end_sums(const interpose::PieceUse& use, const char* operation) {
  parts_.check(Call::CloseSum, operation);
  parts_.executor.check_not_failed();
  parts_.post_backward.reduce_local_sums();
  parts_.gradients.scale_now(parts_.parameters);
  parts_.gradients.end_sums(use.gradients, sets_to_zero(operation));
}

// A unit that is used in several places would be opened by the first and wait for the last: its gradients are copied.
torch::Tensor Events::gradient_destination(int id, int parameter) {
  const std::lock_guard lock(parts_.mutex);
  torch::NoGradGuard no_grad;
  parts_.note_backward();
  ShardedUnit& unit = *parts_.units[id];
  const schedule::Schedule& schedule = parts_.schedule;
  if (parts_.group->size() == 1 || unit.dtype() != unit.gradients.dtype() || !schedule.used_once(id) ||
      schedule.reduced(id) || schedule.reduction_under_way(id) || parts_.executor.failed() ||
      parts_.machine.check(Call::AddGradient) != schedule::Misuse::None) {
    return {};
  }
  perform(parts_.schedule.gradient_begins(id));
  return unit.gradients.place_of(parameter);
}

void Events::gradient_arrives(int id, int parameter, torch::Tensor gradient) {
  // A custom function may return a sharded parameter; reading it is a touch, which takes the lock itself.
  if (interpose::UnitStorage::of(gradient)) gradient = gradient.clone();
  const std::lock_guard lock(parts_.mutex);
  torch::NoGradGuard no_grad;
  parts_.note_backward();
  ShardedUnit& unit = *parts_.units[id];
  parts_.gradients.check_open("a gradient");
  parts_.optimizer_step.check_not_stepped({&id, 1}, "a gradient");
  unit.parameters[parameter].check_attached("backward");
  parts_.executor.check_not_failed();
  unit.sum.check_can_add(parameter, unit.parameters[parameter].name());
  if (parts_.schedule.reduced(id)) parts_.executor.count_late_gradient();
  if (comes_late(id)) {
    unit.gradients.keep_late(parameter, std::move(gradient));
    return parts_.schedule.gradient_kept(id);
  }
  perform(parts_.schedule.gradient_begins(id));
  parts_.executor.write_gradient(id, parameter, std::move(gradient));
  perform(parts_.schedule.gradient_ends(id, unit.gradients.trainable()));
  parts_.optimizer_step.step_early(parts_.recorder.touched());
}

// True if a reduction of the unit is under way, which ends only when this rank goes on.
bool Events::comes_late(int id) {
  if (!parts_.schedule.reduction_under_way(id)) return false;
  ShardedUnit& unit = *parts_.units[id];
  const auto begun = [&] { return unit.collectives->wait_begun() == collectives::Begun::Yes; };
  return unit.gradients.has_late() || !parts_.executor.guarded(begun);
}

void Events::backward_ends(int task) {
  const std::lock_guard lock(parts_.mutex);
  if (!parts_.backward.close(task)) return;
  interpose::ActivationWatch::none_in_use();
  parts_.recorder.computes_nothing();
  torch::NoGradGuard no_grad;
  parts_.finish_backward(parts_.post_backward.agree());
}

bool Events::steps_in_backward() const {
  const std::lock_guard lock(parts_.mutex);
  return parts_.machine.early_step() == schedule::EarlyStepPhase::LastBackward;
}

}  // namespace fsdp::engine
