#include "schedule/step_driver.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "schedule/refuse.h"

namespace fsdp::schedule {

StepDriver::StepDriver(Facts facts, const Limits& limits, Performer& performer, GradientSums& sums, Peers& peers,
                       SharedFlags flags)
    : facts_(std::move(facts)),
      performer_(performer),
      peers_(peers),
      flags_(flags),
      schedule_(limits),
      agreement_(facts_, schedule_, peers),
      executor_(facts_, schedule_, machine_, agreement_, performer, peers),
      sum_(machine_, sums),
      changes_(schedule_, executor_, performer, flags.changed),
      backward_end_(facts_, schedule_, machine_, agreement_, executor_, sums, flags.local_sums),
      step_(facts_, schedule_, machine_, executor_, performer, sum_, changes_),
      join_(facts_, schedule_, agreement_, executor_, backward_end_) {}

void StepDriver::other_operator_begins(std::span<const UnitId> units, Mode mode, bool runs_again,
                                       const char* operation) {
  check_call(machine_, Call::UseParameter, operation, facts_.units[units[0]]);
  if (mode == Mode::Forward) forward_begins();
  if (flags_.changed || (mode == Mode::Backward && schedule_.is_outdated())) check_changed(units[0], mode);
  step_.check_not_stepped(units, operation);
  schedule_.set_runs_again(runs_again);
  const Actions actions = schedule_.operator_begins(units, mode);
  try {
    perform(actions, operation);
    step_.step_early();
  } catch (...) {
    schedule_.operator_ends(units);
    throw;
  }
}

void StepDriver::perform(const Actions& actions, const char* operation) {
  if (actions.empty()) return executor_.check_not_failed();
  executor_.perform(actions, operation);
  step_.reduced(actions);
}

// Before anything else of a training forward is communicated.
void StepDriver::forward_begins() {
  if (schedule_.forward_begins()) executor_.guarded([this] { peers_.forward_begins(is_together()); });
}

// `unit` is the first to be used or viewed since the shards were written. Autograd is told now, and not when they
// changed, so that this check speaks before autograd's own.
void StepDriver::check_changed(UnitId unit, Mode mode) {
  if (mode == Mode::Backward) refuse(Misuse::ShardsChanged, "", facts_.units[unit]);
  performer_.mark_changed();
  flags_.changed = false;
}

void StepDriver::check_gradient(UnitId unit) {
  sum_.check_open("a gradient");
  step_.check_not_stepped({&unit, 1}, "a gradient");
}

bool StepDriver::gradient_comes(UnitId unit, bool has_late) {
  if (schedule_.reduced(unit)) executor_.count_late_gradient();
  if (schedule_.reduction_under_way(unit) && (has_late || executor_.reduction_stalls(unit))) {
    schedule_.gradient_kept(unit);
    return false;
  }
  perform(schedule_.gradient_begins(unit));
  return true;
}

void StepDriver::gradient_is_there(UnitId unit, int trainable) {
  perform(schedule_.gradient_ends(unit, trainable));
  step_.step_early();
}

// A unit that is used in several places would be opened by the first and wait for the last: its gradients are copied.
bool StepDriver::opens_gradient_in_place(UnitId unit) {
  if (facts_.alone() || !schedule_.used_once(unit) || schedule_.reduced(unit) || schedule_.reduction_under_way(unit) ||
      executor_.failed() || machine_.check(Call::AddGradient) != Misuse::None) {
    return false;
  }
  perform(schedule_.gradient_begins(unit));
  return true;
}

std::optional<int64_t> StepDriver::begin_micro_batch(int64_t number) {
  FSDP_CHECK(!machine_.in_backward(),
             "MicroBatch: the scope of micro-batch {} is opened inside a backward. Open it around the whole forward or "
             "backward.",
             number);
  return schedule_.begin_micro_batch(number);
}

void StepDriver::hold(std::span<const UnitId> units) {
  check(Call::UseParameter, "a gather");
  changes_.publish_pieces();
  perform(schedule_.hold(units));
}

void StepDriver::backward_ends() { finish_backward(backward_end_.agree()); }

void StepDriver::backward_without_batch() {
  sum_.check_open("a backward");
  check(Call::BackwardWithoutBatch, "backward_without_batch");
  changes_.publish_pieces();
  finish_backward(join_.follow());
}

void StepDriver::finish_backward(const UnitCounts& counts) {
  const bool any = std::ranges::any_of(counts, [](const UnitCount& unit) { return unit.gradients > 0; });
  if (any) sum_.check_open("a gradient");  // this rank may have got none itself
  step_.backward_finishes(counts);
  const bool together = is_together();
  std::optional<UnitId> too_early = changed_too_early(counts);
  for (UnitId unit : backward_end_.finish(counts)) {
    if (counts[unit].changed > 0) too_early = unit;
  }
  executor_.guarded([&] { peers_.backward_ended(together); });
  step_.backward_ended(any, too_early);
  if (together) executor_.guarded([&] { peers_.backward_measured(); });
}

void StepDriver::backward_abandoned() {
  backward_end_.abandon();
  step_.backward_abandoned();
}

void StepDriver::end_local_sums(std::string_view what) {
  check(Call::CloseSum, what);
  executor_.check_not_failed();
  backward_end_.reduce_local_sums();
}

void StepDriver::close_sum(Call call, std::string_view what) {
  check(call, what);
  executor_.check_not_failed();
  backward_end_.reduce_local_sums();
  sum_.close(schedule_.stepped_any());
}

void StepDriver::zero_grad() {
  check(Call::ZeroGrad, "zero_grad");
  backward_end_.drop_local_sums();
  sum_.drop();
}

void StepDriver::begin_local() {
  machine_.open_no_sync();
  schedule_.set_local(true);
}

void StepDriver::end_local() noexcept {
  machine_.close_no_sync();
  schedule_.set_local(machine_.in_no_sync());
}

void StepDriver::step(OptimizerStep::Rule rule) {
  close_sum(Call::Step, "a step");
  step_.step(rule);
  schedule_.shards_written();
  flags_.changed = true;
}

void StepDriver::open_early_step(OptimizerStep::Rule rule) {
  check(Call::OpenStepInBackward, "step_in_backward");
  executor_.check_not_failed();
  step_.open_scope(rule);
}

bool StepDriver::any_rank_has_batch(bool here) {
  check(Call::ChangeSettings, "any_rank_has_batch");
  return join_.any_rank_has_batch(here);
}

void StepDriver::pieces_change(std::string_view operation) {
  if (changes_.pieces_changed()) return;
  check(Call::WriteState, operation);
  changes_.pieces_change();
}

}  // namespace fsdp::schedule
