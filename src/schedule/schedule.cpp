#include "schedule/schedule.h"

#include <algorithm>

namespace fsdp::schedule {

Schedule::Schedule(const Limits& limits)
    : prefetch_(limits.prefetch),
      residency_(limits.units, limits.buffers, limits.full_until),
      reductions_(limits.units, limits.gradient_buffers),
      record_(limits.units),
      forward_uses_(limits.units),
      changed_(limits.units) {}

Actions Schedule::operator_begins(std::span<const UnitId> units, Mode mode) {
  for (UnitId unit : units) residency_.pin(unit);
  if (same_use(units, mode)) return {};
  const bool next = mode != mode_ || !std::equal(units.begin(), units.end(), current_.begin(), current_.end());
  const bool turns = (mode == Mode::Backward) != (mode_ == Mode::Backward);
  enter(mode);
  for (UnitId unit : units) {
    const bool taken = std::find(current_.begin(), current_.end(), unit) == current_.end();
    if (taken || turns) record_.use(unit, mode);
    if (taken) {
      trace().use(unit);
      if (mode != Mode::Backward) ++forward_uses_[unit];
    }
    residency_.touch(unit);
  }
  current_.assign(units.begin(), units.end());

  Actions actions;
  make_full(units, actions);
  if (mode == Mode::Backward && next) reductions_.use(units, forward_uses_, actions);
  record_.add(actions);
  return actions;
}

void Schedule::make_full(std::span<const UnitId> units, Actions& actions) {
  if (residency_.shares_buffers()) {
    for (UnitId unit : units) residency_.demand(unit, trace(), actions);
    for (int steps = 1; steps <= prefetch_; ++steps) {
      if (std::optional<UnitId> unit = trace().ahead(steps)) residency_.prefetch(*unit, trace(), current_, actions);
    }
  } else {
    residency_.demand_all(actions);
  }
  for (UnitId unit : units) residency_.await(unit, actions);
}

bool Schedule::same_use(std::span<const UnitId> units, Mode mode) const {
  if (mode != mode_ || period_ == Period::None || units.size() != current_.size()) return false;
  for (size_t i = 0; i < units.size(); ++i) {
    if (units[i] != current_[i] || residency_.state(units[i]) != Residency::State::Full) return false;
  }
  return true;
}

void Schedule::operator_ends(std::span<const UnitId> units) {
  for (UnitId unit : units) residency_.unpin(unit);
}

void Schedule::enter(Mode mode) {
  mode_ = mode;
  // Without gradients inside a training period: the forward of a checkpointed block, which its backward repeats.
  if (mode == Mode::ForwardWithoutGradients) {
    if (period_ == Period::None) period_ = Period::Evaluation;
  } else if (period_ != Period::Training) {
    end_period();
    period_ = Period::Training;
    record_.begin_micro_batch();
  }
}

void Schedule::end_period() {
  if (period_ == Period::Evaluation) evaluation_.finish();
  if (period_ == Period::Training) training_.abandon();  // a backward that ended has finished it before
  record_.abandon_micro_batch();
  period_ = Period::None;
  current_.clear();
  forward_uses_.assign(forward_uses_.size(), 0);
}

Actions Schedule::gradient_begins(UnitId unit) {
  Actions actions;
  reductions_.open(unit, actions);
  record_.add(actions);
  return actions;
}

Actions Schedule::gradient_ends(UnitId unit, int trainable) {
  Actions actions;
  reductions_.arrived(unit, trainable, forward_uses_[unit], actions);
  record_.add(actions);
  return actions;
}

Actions Schedule::reduce_next(std::span<const int64_t> account) {
  Actions actions;
  reductions_.begin_next(account, actions);
  if (period_ == Period::Training) {
    record_.end_of_backward();
    record_.add(actions);
  } else {
    record_.add_behind(actions);
  }
  return actions;
}

Actions Schedule::backward_ends(std::span<const int64_t> account) {
  Actions actions;
  reductions_.finish(account, forward_uses_, actions);
  residency_.release_all(FullUntil::EndOfBackward, actions);
  record_.end_of_backward();
  record_.add(actions);
  record_.end_micro_batch();
  if (period_ == Period::Training) training_.finish();
  planned_by_all_ = !training_.suspended();
  end_period();
  return actions;
}

Actions Schedule::open_ends() {
  Actions actions;
  reductions_.wait_all(actions);
  reductions_.begin_backward();
  record_.add_behind(actions);
  return actions;
}

Actions Schedule::follow() {
  end_period();
  reductions_.follow();
  Actions actions;
  if (shares_buffers()) {
    residency_.release_all(FullUntil::BufferNeeded, actions);
  } else {
    residency_.demand_all(actions);
    for (UnitId unit = 0; unit < static_cast<UnitId>(forward_uses_.size()); ++unit) residency_.await(unit, actions);
  }
  record_.add(actions);
  return actions;
}

Actions Schedule::repeat_reductions() {
  Actions actions;
  reductions_.repeat(actions);
  return actions;
}

Actions Schedule::backward_abandoned() {
  Actions actions;
  reductions_.abandon(actions);
  end_period();
  residency_.release_all(FullUntil::EndOfBackward, actions);
  record_.add(actions);
  return actions;
}

bool Schedule::done_with(UnitId unit) const {
  const bool in_use = pinned(unit) || std::find(current_.begin(), current_.end(), unit) != current_.end();
  return period_ == Period::Training && mode_ == Mode::Backward && !in_use && reductions_.complete(unit) &&
         training_.on_plan() && training_.distance(unit) == Trace::kNever;
}

Actions Schedule::give_up(UnitId unit) {
  Actions actions;
  residency_.give_up(unit, actions);
  record_.add(actions);
  return actions;
}

Actions Schedule::shards_change() {
  Actions actions;
  end_period();
  residency_.release_all(FullUntil::ShardsChange, actions);
  record_.add_behind(actions);
  record_.end_step();
  changed_.assign(changed_.size(), 0);
  return actions;
}

Actions Schedule::shard_changed(UnitId unit, bool gathers) {
  Actions actions;
  const bool early = period_ == Period::Training;
  changed_[unit] = early;
  if (!gathers || !comes_first(unit) || (early && !room_for_next())) return actions;
  residency_.gather_next(unit, actions);
  early ? record_.add(actions) : record_.add_to_last_step(actions);
  return actions;
}

// In the next micro-batch. Where each unit has a buffer, the first use gathers all.
bool Schedule::comes_first(UnitId unit) const {
  if (!shares_buffers()) return true;
  return planned_by_all_ && training_.on_plan() &&
         training_.distance_from_begin(unit) <= std::min(1 + prefetch_, buffers());
}

// Beside all that the backward still uses.
bool Schedule::room_for_next() const {
  return !shares_buffers() || training_.units_left() + residency_.gathered_early() < buffers();
}

}  // namespace fsdp::schedule
