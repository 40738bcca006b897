#include "schedule/schedule.h"

#include <algorithm>
#include <utility>

namespace fsdp::schedule {

Schedule::Schedule(const Limits& limits)
    : prefetch_(limits.prefetch),
      progress_(limits.units),
      residency_(progress_, limits.buffers, limits.full_until),
      reductions_(progress_, limits.gradient_buffers),
      record_(limits.units),
      micro_batches_(limits.units) {}

Actions Schedule::other_use(std::span<const UnitId> units, Mode mode) {
  const bool next = mode != mode_ || !std::equal(units.begin(), units.end(), current_.begin(), current_.end());
  const bool turns = (mode == Mode::Backward) != (mode_ == Mode::Backward);
  enter(mode, units);
  if (mode == Mode::Backward) micro_batches_.backward_begins();
  for (UnitId unit : units) {
    const bool taken = !in_use(unit) || (turns && follows_given());
    if (taken || turns) record_.use(unit, mode);
    if (taken) use(unit, mode);
    residency_.touch(unit);
  }
  current_.assign(units.begin(), units.end());

  Actions actions;
  make_full(units, actions);
  if (mode == Mode::Backward && next) reductions_.use(units, forward_uses(), runs_again_, actions);
  if (mode == Mode::Backward && !next && ran_again_) reductions_.goes_on(forward_uses(), actions);
  record_.add(actions);
  return actions;
}

void Schedule::make_full(std::span<const UnitId> units, Actions& actions) {
  if (residency_.shares_buffers()) {
    for (UnitId unit : units) residency_.demand(unit, order(), actions);
    for (int steps = 1; steps <= prefetch_ && !residency_.holds_any(); ++steps) {
      if (std::optional<UnitId> unit = order().ahead(steps)) residency_.prefetch(*unit, order(), current_, actions);
    }
  } else {
    residency_.demand_all(actions);
  }
  for (UnitId unit : units) residency_.await(unit, actions);
}

Actions Schedule::hold(std::span<const UnitId> units) {
  Actions actions;
  for (UnitId unit : units) residency_.hold(unit, /*foreseen=*/!followed_, order(), actions);
  record(actions);
  return actions;
}

Actions Schedule::let_go(std::span<const UnitId> units) {
  Actions actions;
  residency_.let_go(units, actions);
  record(actions);
  return actions;
}

void Schedule::use(UnitId unit, Mode mode) {
  if (period_ == Period::Evaluation) {
    evaluation_.use(unit);
  } else {
    follows_given() ? given_.use(unit, mode) : training_order().use(unit, mode);
  }
  if (mode != Mode::Backward) micro_batches_.use(unit, writes_);
}

const UseOrder& Schedule::order() const {
  if (period_ == Period::Evaluation) return evaluation_;
  if (follows_given()) return given_;
  return period_ == Period::BackwardAlone ? backward_alone_ : training_;
}

// A forward without gradients in a training period, or in a micro-batch with a name, is that of a checkpointed block,
// which the backward repeats. A period may begin with one: then it is an evaluation, too, until the plan or a use with
// gradients says more.
void Schedule::enter(Mode mode, std::span<const UnitId> units) {
  mode_ = mode;
  if (mode != Mode::ForwardWithoutGradients || micro_batches_.is_named()) {
    if (period_ == Period::Undecided) period_ = Period::Training;
    if (!is_training()) begin_training(mode, units.front());
    return;
  }
  const auto taken = std::ranges::find_if(units, [this](UnitId unit) { return !in_use(unit); });
  if (taken == units.end() || (period_ != Period::None && period_ != Period::Undecided)) return;
  if (training_.begins_without_gradients(*taken)) {
    if (period_ == Period::None) record_.begin_micro_batch();
    period_ = Period::Undecided;
  } else {
    turn_into_evaluation();
  }
}

void Schedule::begin_training(Mode mode, UnitId first) {
  const std::vector<UnitId> before = period_ == Period::Evaluation && !micro_batches_.is_named()
                                         ? evaluation_.take_beginning_of_training(first)
                                         : std::vector<UnitId>();
  const std::vector<UnitId> current = before.empty() ? std::vector<UnitId>() : current_;
  end_period();
  current_ = current;
  period_ = mode == Mode::Backward && before.empty() ? Period::BackwardAlone : Period::Training;
  record_.begin_micro_batch();
  for (UnitId unit : before) use(unit, Mode::ForwardWithoutGradients);
}

void Schedule::turn_into_evaluation() {
  if (std::exchange(period_, Period::Evaluation) != Period::Undecided) return;
  record_.abandon_micro_batch();
  for (UnitId unit : training_.take_recording()) evaluation_.use(unit);
}

void Schedule::end_period() {
  if (period_ == Period::Evaluation) evaluation_.finish();
  if (is_training()) training_order().abandon();  // a backward that ended has finished it before
  record_.abandon_micro_batch();
  period_ = Period::None;
  current_.clear();
  micro_batches_.period_ends();
}

void Schedule::set_followed(bool followed) {
  followed_ = followed;
  suspend_plans();
}

void Schedule::suspend_plans() {
  const bool suspended = followed_ || !trust_.trusted();
  training_.suspend(suspended);
  backward_alone_.suspend(suspended);
  given_.suspend(suspended);
  evaluation_.suspend(suspended);  // a checkpointed block's forward may come before anything else
  reductions_.set_alike(trust_.trusted());
}

void Schedule::ranks_differ() {
  forget_plans();
  evaluation_.forget_all();
  trust_.ranks_differ();
  suspend_plans();
}

void Schedule::all_ended_backward() {
  trust_.backward_ends();
  suspend_plans();
}

std::vector<int> Schedule::learnt() const {
  std::vector<int> learnt = training_.learnt();
  const std::vector<int> alone = backward_alone_.learnt();
  learnt.insert(learnt.end(), alone.begin(), alone.end());
  const std::vector<int> given = given_.learnt();
  learnt.insert(learnt.end(), given.begin(), given.end());
  return learnt;
}

std::vector<int> Schedule::all_learnt() const {
  std::vector<int> all = learnt();
  for (const auto& part : {evaluation_.plan(), training_.recording(), backward_alone_.recording(), given_.recording()})
    all.insert(all.end(), part.begin(), part.end());
  return all;
}

void Schedule::forget_plans() {
  training_.forget_all();
  backward_alone_.forget_all();
  given_.forget_all();
}

Actions Schedule::gradient_begins(UnitId unit) {
  Actions actions;
  reductions_.open(unit, actions);
  record_.add(actions);
  return actions;
}

Actions Schedule::gradient_ends(UnitId unit, int trainable) {
  Actions actions;
  reductions_.arrived(unit, trainable, forward_uses()[unit], actions);
  record_.add(actions);
  return actions;
}

Actions Schedule::reduce_next(const UnitCounts& counts) {
  Actions actions;
  reductions_.begin_next(counts, actions);
  if (is_training()) record_.end_of_backward();
  record(actions);
  return actions;
}

Actions Schedule::backward_ends(const UnitCounts& counts) {
  Actions actions;
  reductions_.finish(counts, forward_uses(), actions);
  micro_batches_.backward_ends();
  release_after_backward(actions);
  record_.end_of_backward();
  record_.add(actions);
  record_.end_micro_batch();
  if (is_training() && !follows_given()) training_order().finish();
  end_period();
  return actions;
}

// With a given order, units stay that the rest of the step uses. Where each unit has a buffer, ranks may use other
// ones, and gather all at once: all stay up to the last segment, which is the same on every rank.
void Schedule::release_after_backward(Actions& actions) {
  const bool more = follows_given() && given_.has_more() && !given_.suspended();
  if (more && !shares_buffers()) return residency_.release_all(FullUntil::BufferNeeded, actions);
  residency_.release_all(FullUntil::EndOfBackward, actions, more && given_.on_plan() ? &given_ : nullptr);
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
    for (UnitId unit = 0; unit < static_cast<UnitId>(progress_.size()); ++unit) residency_.await(unit, actions);
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
  given_.abandon();
  end_period();
  residency_.release_all(FullUntil::EndOfBackward, actions);
  record_.add(actions);
  return actions;
}

bool Schedule::may_leave(UnitId unit) const {
  const bool used_again = in_use(unit) || !order().on_plan() || order().distance(unit) != UseOrder::kNever;
  return is_training() && mode_ == Mode::Backward && progress_[unit].may_leave(used_again);
}

Actions Schedule::leave(UnitId unit) {
  Actions actions;
  progress_[unit].shard = UnitProgress::Shard::Left;
  residency_.give_up(unit, actions);
  record_.add(actions);
  return actions;
}

Actions Schedule::shards_change() {
  Actions actions;
  end_period();
  training_.end_step();
  backward_alone_.end_step();
  given_.end_step();
  residency_.release_all(FullUntil::ShardsChange, actions);
  record_.add_behind(actions);
  record_.end_step();
  ++changes_;
  for (UnitProgress& unit : progress_) unit.shard = UnitProgress::Shard::Old;
  return actions;
}

Actions Schedule::shard_changed(UnitId unit, bool gathers) {
  Actions actions;
  const bool inside = is_training();
  if (inside) progress_[unit].shard = UnitProgress::Shard::Stepped;
  const bool room = !inside || room_for_next();
  if (!gathers || !progress_[unit].may_gather_next(comes_first(unit), room)) return actions;
  residency_.gather_next(unit, actions);
  inside ? record_.add(actions) : record_.add_to_last_step(actions);
  return actions;
}

// In the next micro-batch. Where each unit has a buffer, the first use gathers all.
bool Schedule::comes_first(UnitId unit) const {
  if (!shares_buffers()) return true;
  const int first = std::min(1 + prefetch_, buffers());
  if (given_.given()) return given_.on_plan() && given_.begins_next_step_with(unit, first);
  return training_.on_plan() && training_.begins_next_step_with(unit, first);
}

// Beside all that the backward still uses.
bool Schedule::room_for_next() const {
  return !shares_buffers() || order().uses_fewer_than(buffers() - residency_.gathered_next());
}

}  // namespace fsdp::schedule
