// The order of a step: from the events and calls of a program to the verbs of a performer.
//
// It owns the schedule, the step machine and the small classes that decide. It has so many functions because it is the
// one door to them: most are a check and a call. The step machine answers whether a call may come now, the schedule
// which units are gathered, released and reduced; rounds settle which other ranks take part. Knows no tensors, takes no
// lock, starts no thread: the owner serialises all calls.
//
// Engine = driver + tensors. Simulator = driver + clock. Test = driver + script.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "schedule/join.h"
#include "schedule/optimizer_step.h"

namespace fsdp::schedule {

// Flags that other threads read. The owner keeps both alive.
struct SharedFlags {
  std::atomic<bool>& changed;     // the shards have changed since a parameter was used or viewed last
  std::atomic<bool>& local_sums;  // gradients of no_sync scopes wait for their reduction
};

class StepDriver {
 public:
  // All but the facts and the limits outlive it.
  StepDriver(Facts facts, const Limits& limits, Performer& performer, GradientSums& sums, Peers& peers,
             SharedFlags flags);
  StepDriver(const StepDriver&) = delete;  // its members know each other
  StepDriver& operator=(const StepDriver&) = delete;

  // ---- Events of a forward or a backward
  // This thread runs a backward (`inside`); an earlier one threw (`abandoned`). Before every other call.
  void note_backward(bool inside, bool abandoned) {
    if (abandoned) [[unlikely]]
      backward_abandoned();
    if (inside) machine_.backward_begins();
  }
  // An operator takes these units, each named once: they are full afterwards, until `operator_ends` with the same
  // units. `runs_again`: it is a part of the forward that the backward runs again. Text is a C string or a view.
  void operator_begins(std::span<const UnitId> units, Mode mode, bool runs_again, const char* operation) {
    if (usual() && schedule_.goes_on(units, mode, runs_again)) return;
    other_operator_begins(units, mode, runs_again, operation);
  }
  void operator_ends(std::span<const UnitId> units) { schedule_.operator_ends(units); }
  // A view of a parameter is made, the first since the shards have changed.
  void parameter_viewed(UnitId unit, Mode mode) { check_changed(unit, mode); }
  // A gradient of the unit comes. Throws Error where it may not.
  void check_gradient(UnitId unit);
  // True if its buffer is open now. Otherwise the gradient is to be kept aside: a reduction of the unit is under way,
  // which ends only when this rank goes on. `has_late`: others are kept already.
  bool gradient_comes(UnitId unit, bool has_late);
  // It is there. `trainable` is how many parameters of the unit want gradients.
  void gradient_is_there(UnitId unit, int trainable);
  // True if a gradient that will come next can be written in its buffer, which is open then.
  bool opens_gradient_in_place(UnitId unit);
  void backward_ends();

  // ---- Calls of the program
  // Schedule::give_order. The same on all ranks that share shards.
  void give_order(std::vector<Segment> segments) { schedule_.give_order(std::move(segments)); }
  // Schedule::begin_micro_batch. Throws Error inside a backward.
  std::optional<int64_t> begin_micro_batch(int64_t number);
  void end_micro_batch(std::optional<int64_t> outer) { schedule_.end_micro_batch(outer); }
  // Keeps the units full over any number of forwards and backwards, until `let_go` or a change of the shards. Their
  // gathers begin now, and meanwhile no unit is gathered ahead of its use. All ranks that share shards make the same
  // calls at the same place.
  void hold(std::span<const UnitId> units);
  void let_go(std::span<const UnitId> units) { perform(schedule_.let_go(units)); }
  // Throws Error if the call would be misuse now; `what` names it.
  void check(Call call, std::string_view what) const { check_call(machine_, call, what); }
  // Ends the sum of the gradients for the call. A collective where no_sync scopes left something to reduce.
  void close_sum(std::string_view what) { close_sum(Call::CloseSum, what); }
  // No sum of a no_sync scope waits afterwards. A collective where one does.
  void end_local_sums(std::string_view what);
  void zero_grad();
  void begin_local();
  void end_local() noexcept;
  void step(OptimizerStep::Rule rule);
  void open_early_step(OptimizerStep::Rule rule);
  void close_early_step() noexcept { step_.close_scope(); }
  void forget(OptimizerStep::Rule rule) noexcept { step_.forget(rule); }
  bool any_rank_has_batch(bool here);
  void backward_without_batch();

  // A scope of full parameters, in which every use of the model but its own is misuse.
  void open_full_scope() { machine_.open_full_scope(); }
  void close_full_scope() { machine_.close_full_scope(); }
  // Some parameters have no values: a deferred module was sharded without first values, or a load broke off.
  void miss_values() { machine_.miss_values(); }
  void lose_values() { machine_.lose_values(); }
  void have_values() { machine_.have_values(); }

  // ---- Reads and writes of the shards
  void publish_pieces() { changes_.publish_pieces(); }
  // An operator of the user's is about to write pieces.
  void pieces_change(std::string_view operation);
  void release_all() { changes_.release_all(); }
  void await_readers() { performer_.await_readers(); }
  void begin_write() { changes_.begin_write(); }
  void publish() { changes_.publish(); }
  void end_broken_step() { step_.end_broken_step(peers_); }
  // An operator has written full units. The round in which the ranks compare its values; `report` as enter_round's.
  Round enter_round(RankReport report) { return executor_.enter_round(std::move(report)); }
  void change_full(UnitId unit, const std::function<void()>& change) { changes_.change_full(unit, change); }

  // Runs `body`, which talks to other ranks, unless something failed before.
  template <typename Body>
  auto guarded(Body body) {
    return executor_.guarded(std::move(body));
  }
  void check_not_failed() const { executor_.check_not_failed(); }
  bool failed() const { return executor_.failed(); }

  // Every rank runs this forward and backward, and they tell each other of it.
  bool is_together() const { return !machine_.in_no_sync() && !agreement_.followed(); }
  bool followed() const { return agreement_.followed(); }  // some rank has no batch
  bool pieces_changed() const { return changes_.pieces_changed(); }
  // Begun for the next micro-batch, from peers, and not waited for.
  bool gathers_for_next(UnitId unit) const { return facts_.divided() && schedule_.progress(unit).begun_for_next; }
  const ExchangeCounts& counts() const { return executor_.counts(); }
  const Schedule& schedule() const { return schedule_; }
  const StepMachine& machine() const { return machine_; }

 private:
  // Nothing but the schedule has anything to say to an operator.
  bool usual() const {
    return machine_.check(Call::UseParameter) == Misuse::None && machine_.early_step() == EarlyStepPhase::None &&
           !flags_.changed.load(std::memory_order_acquire) && !failed();
  }
  void other_operator_begins(std::span<const UnitId> units, Mode mode, bool runs_again, const char* operation);
  void perform(const Actions& actions, const char* operation = "");
  void close_sum(Call call, std::string_view what);
  void check_changed(UnitId unit, Mode mode);
  void forward_begins();
  void backward_abandoned();
  void finish_backward(const UnitCounts& counts);

  const Facts facts_;
  Performer& performer_;
  Peers& peers_;
  SharedFlags flags_;
  Schedule schedule_;
  StepMachine machine_;
  Agreement agreement_;
  Executor executor_;
  StepSum sum_;
  ShardChanges changes_;
  BackwardEnd backward_end_;
  OptimizerStep step_;
  Join join_;
};

}  // namespace fsdp::schedule
