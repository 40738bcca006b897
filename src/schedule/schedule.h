// The state machine that decides when units are gathered, released and reduced (docs/internals.md, "The schedule").
//
// It has so many functions because it is the only interface to its parts. Most call one part (residency, reductions,
// the orders of use, the record) in a line, so that no caller can change one part without the others.
//
// Events go in, actions come out, in the order in which they are to be performed; it calls nothing. Completions are no
// events, so ranks that see the same events issue the same actions. A period that is like none before is recorded and
// served on demand; from then on units are gathered ahead, and the buffer whose unit is needed last is taken first
// (Belady's rule). Pure; not for concurrent use.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "schedule/action.h"
#include "schedule/given_order.h"
#include "schedule/open_micro_batches.h"
#include "schedule/pass_order.h"
#include "schedule/period_order.h"
#include "schedule/plan_trust.h"
#include "schedule/record.h"
#include "schedule/reductions.h"
#include "schedule/residency.h"
#include "schedule/use_order.h"

namespace fsdp::schedule {

struct Limits {
  int units = 0;
  int buffers = 2;           // full units at once
  int prefetch = 1;          // units gathered ahead
  int gradient_buffers = 2;  // units whose gradients are being completed or reduced at once
  FullUntil full_until = FullUntil::BufferNeeded;
};

class Schedule {
 public:
  explicit Schedule(const Limits& limits);
  Schedule(const Schedule&) = delete;  // its members know each other
  Schedule& operator=(const Schedule&) = delete;

  // True if the operator takes the units of the one before, in the same part of the program, as nearly every one does.
  // Then nothing is left to do, as after `operator_begins` and its actions.
  bool goes_on(std::span<const UnitId> units, Mode mode, bool runs_again) {
    if (runs_again != runs_again_ || !same_use(units, mode)) return false;
    for (UnitId unit : units) residency_.pin(unit);
    return true;
  }
  // An operator takes these units, each named once; they are full once the actions are done, and stay so until
  // `operator_ends` with the same units.
  Actions operator_begins(std::span<const UnitId> units, Mode mode) {
    for (UnitId unit : units) residency_.pin(unit);
    if (same_use(units, mode) && !ran_again_) return {};
    return other_use(units, mode);
  }
  void operator_ends(std::span<const UnitId> units) {
    for (UnitId unit : units) residency_.unpin(unit);
  }
  // True if the operators that follow are a part of the forward that the backward runs again.
  void set_runs_again(bool runs_again) { ran_again_ = std::exchange(runs_again_, runs_again) && !runs_again; }
  // Keeps these units full, over any number of forwards and backwards, until `let_go` or a change of the shards. The
  // first operator that takes one waits for its gather.
  Actions hold(std::span<const UnitId> units);
  Actions let_go(std::span<const UnitId> units);
  // A gradient of the unit comes; its buffer is open once the actions are done.
  Actions gradient_begins(UnitId unit);
  // It has been written. `trainable` is how many parameters of the unit want gradients.
  Actions gradient_ends(UnitId unit, int trainable);
  // In place of the two, where a reduction of the unit is under way and does not end now (Reductions::keep_late).
  bool reduction_under_way(UnitId unit) const { return reductions_.under_way(unit); }
  void gradient_kept(UnitId unit) { reductions_.keep_late(unit); }
  // This rank's counts at the end of a backward. The ranks' largest go to `backward_ends`.
  UnitCounts counts() const { return reductions_.counts(); }
  // In its midst: only the reductions that this rank has begun.
  UnitCounts counts_so_far() const { return reductions_.begun(); }
  // Given the largest counts, one of the reductions that any rank needs; empty when none is left to begin. The actions
  // of one are performed before the next is asked for.
  Actions reduce_next(const UnitCounts& counts);
  // After that: waits for all reductions, and nothing is full for longer than it may be.
  Actions backward_ends(const UnitCounts& counts);
  // A WaitBuffer that is not to be had (Reductions::stalls).
  int reduction_stalls(UnitId unit, bool of_peer) { return reductions_.stalls(unit, of_peer); }
  // Gradients stay with this rank from now on, or are reduced again (Reductions::set_local).
  void set_local(bool local) { reductions_.set_local(local); }
  // Waits for the reductions of what was open, outside of any backward: nothing is learnt from them.
  Actions open_ends();
  // The plans of periods with gradients, as numbers: ranks can rely on them while they are the same on all.
  std::vector<int> learnt() const;
  // `learnt`, the plan of evaluations, and the units that this period used so far.
  std::vector<int> all_learnt() const;
  void forget_plans();
  // Ranks use different units, and gathers need all ranks. From now on units are gathered on demand, plans learn
  // nothing, and no reduction is waited for before the end of a backward (PlanTrust).
  void ranks_differ();
  // All ranks have ended a backward.
  void all_ended_backward();
  bool ranks_are_alike() const { return trust_.trusted(); }
  // How often shards have changed.
  int64_t changes() const { return changes_; }
  // The number of a buffer for a short time, for a unit that this rank does not use itself.
  int spare_buffer() const { return residency_.spare_buffer(); }
  // True if some rank only follows the others from now on: then units are gathered on demand, unforeseen, and nothing
  // is learnt.
  void set_followed(bool followed);
  // This rank follows, in place of a forward and backward, which `backward_ends` ends: units that do not share buffers
  // are full afterwards.
  Actions follow();
  // Takes part in the reductions that this rank's last backward made.
  Actions repeat_reductions();
  // The backward threw: what was not reduced is forgotten.
  Actions backward_abandoned();
  // True if this backward, which has gone as the last one did, has brought and reduced all gradients of the unit and
  // uses it no more.
  bool may_leave(UnitId unit) const;
  // This rank reads the unit's old values no more: it is not full afterwards.
  Actions leave(UnitId unit);
  // Shards are about to change: nothing is full afterwards, and each unit is as before any step.
  Actions shards_change();
  // This one has changed, inside of a backward that has left it, or after `shards_change`. Units that the next
  // micro-batch gathers at its first use are gathered from now on, while others are being written; inside of a backward
  // if there is room. Where buffers are shared, only if there is a plan. `gathers`: whether it may be, at this point.
  Actions shard_changed(UnitId unit, bool gathers = true);
  const UnitProgress& progress(UnitId unit) const { return progress_[unit]; }
  bool left_any() const { return std::ranges::any_of(progress_, &UnitProgress::left); }
  bool stepped_any() const { return std::ranges::any_of(progress_, &UnitProgress::stepped); }
  // The unit's gather was begun for the next micro-batch, or has been waited for. Returns whether it was so before.
  bool set_begun_for_next(UnitId unit, bool begun) { return std::exchange(progress_[unit].begun_for_next, begun); }
  Residency::State state(UnitId unit) const { return residency_.state(unit); }
  bool shares_buffers() const { return residency_.shares_buffers(); }
  bool pinned(UnitId unit) const { return residency_.pinned(unit); }
  // True if the forward of this micro-batch used the unit, and did so in one go.
  bool used_once(UnitId unit) const {
    return (period_ == Period::Training || micro_batches_.is_named()) && micro_batches_.uses_of(unit) == 1;
  }
  // Events belong to the micro-batch of this name until `end_micro_batch` with the name before, which this returns.
  std::optional<int64_t> begin_micro_batch(int64_t number) {
    given_.begin(number);
    return name_micro_batch(number);
  }
  void end_micro_batch(std::optional<int64_t> outer) {
    given_.go_back_to(outer);
    name_micro_batch(outer);
  }
  // The forwards and backwards of named micro-batches come in this order in every step. Units that it uses again stay
  // full over the end of a backward.
  void give_order(std::vector<Segment> segments) { given_.give(std::move(segments)); }
  // An operator of a forward begins. True if it is the first of its micro-batch.
  bool forward_begins() { return micro_batches_.forward_begins(writes_); }
  // True if the shards were written since the forward of the named micro-batch that has this backward.
  bool is_outdated() const { return micro_batches_.is_outdated(writes_); }
  // The values of the shards are others from now on.
  void shards_written() {
    ++writes_;
    micro_batches_.shards_written();
  }
  // True if a reduction of the unit was begun in this backward: a gradient that comes now is late.
  bool reduced(UnitId unit) const { return progress_[unit].reductions > 0; }
  int buffers() const { return residency_.buffers(); }
  int gradient_buffers() const { return reductions_.buffers(); }
  bool shares_gradient_buffers() const { return reductions_.shares_buffers(); }
  const PeriodOrder& training() const { return training_; }
  const GivenOrder& given() const { return given_; }
  const PassOrder& evaluation() const { return evaluation_; }
  const Record& record() const { return record_; }

 private:
  // A micro-batch is a forward and its backward. A backward ends a period, so that the next holds all forwards up to
  // the next backward: where several micro-batches are in flight, those of several, or none.
  enum class Period {
    None,
    Training,       // forwards, and the backward that ends them
    BackwardAlone,  // its forward lies in an earlier period
    Evaluation,     // forward passes without gradients
    Undecided,      // Training so far, by its plan, though without gradients: it may be an Evaluation
  };

  std::optional<int64_t> name_micro_batch(std::optional<int64_t> number) {
    current_.clear();  // the first use is a new one
    return micro_batches_.name(number);
  }
  const std::vector<int>& forward_uses() const { return micro_batches_.present().forward_uses; }
  void suspend_plans();
  void enter(Mode mode, std::span<const UnitId> units);
  void begin_training(Mode mode, UnitId first);
  void turn_into_evaluation();
  void record(const Actions& actions) { is_training() ? record_.add(actions) : record_.add_behind(actions); }
  void use(UnitId unit, Mode mode);
  void make_full(std::span<const UnitId> units, Actions& actions);
  bool is_training() const { return period_ != Period::None && period_ != Period::Evaluation; }
  PeriodOrder& training_order() { return period_ == Period::BackwardAlone ? backward_alone_ : training_; }
  const UseOrder& order() const;
  void release_after_backward(Actions& actions);
  bool follows_given() const { return given_.given() && micro_batches_.is_named(); }
  void end_period();
  bool comes_first(UnitId unit) const;
  bool room_for_next() const;
  bool in_use(UnitId unit) const { return std::ranges::find(current_, unit) != current_.end(); }
  bool same_use(std::span<const UnitId> units, Mode mode) const {
    const auto is_full = [this](UnitId unit) { return residency_.state(unit) == Residency::State::Full; };
    return mode == mode_ && period_ != Period::None && std::ranges::equal(units, current_) &&
           std::ranges::all_of(units, is_full);
  }
  Actions other_use(std::span<const UnitId> units, Mode mode);

  int prefetch_;
  PeriodOrder training_, backward_alone_;
  GivenOrder given_;
  PassOrder evaluation_;
  std::vector<UnitProgress> progress_;
  Residency residency_;
  Reductions reductions_;
  Record record_;
  PlanTrust trust_;
  bool followed_ = false;
  int64_t changes_ = 0, writes_ = 0;
  Period period_ = Period::None;
  Mode mode_ = Mode::Forward;
  bool runs_again_ = false;
  bool ran_again_ = false;       // before this operator, which does not
  std::vector<UnitId> current_;  // units of the last operator
  OpenMicroBatches micro_batches_;
};

}  // namespace fsdp::schedule
