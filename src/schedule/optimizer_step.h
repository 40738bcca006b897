// The order of an optimizer's step: one unit after the other is opened, updated and published, after the backward or,
// in a scope of step_in_backward, while it still runs.
//
// In the scope, a rank *leaves* a unit when its backward is done with it, which the record of the last backward tells.
// It writes its shard of the unit once all its peers have left the unit, and does not wait for them: `step` does the
// rest. So each rank may step other units early, and the result is the same. A unit's gradients are freed as soon as it
// is stepped.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "schedule/shard_changes.h"
#include "schedule/step_sum.h"

namespace fsdp::schedule {

class OptimizerStep {
 public:
  // The identity of an optimizer's rule; null: none.
  using Rule = const void*;

  // All outlive it.
  OptimizerStep(const Facts& facts, Schedule& schedule, StepMachine& machine, Executor& executor, Performer& performer,
                StepSum& sum, ShardChanges& changes)
      : facts_(facts),
        schedule_(schedule),
        machine_(machine),
        executor_(executor),
        performer_(performer),
        sum_(sum),
        changes_(changes) {}

  // A whole step, or the rest of one that this rule began inside the backward. The sum of the gradients has ended.
  void step(Rule rule);

  // The scope of step_in_backward. Its rule gets units while the backward runs, where that is possible.
  void open_scope(Rule rule);
  void close_scope() noexcept;
  // The rule will not be given anything any more: a step that it has begun breaks off.
  void forget(Rule rule) noexcept;

  // In the scope's backward. Some reductions were waited for.
  void reduced(const Actions& actions);
  // Steps the units that can be stepped now.
  void step_early() {
    if (!candidates_.empty()) step_candidates();
  }
  void check_not_stepped(std::span<const UnitId> units, const char* event) const {
    if (machine_.early_step() != EarlyStepPhase::None) refuse_stepped(units, event);
  }
  // Before the end, by what the ranks agreed on.
  void backward_finishes(const UnitCounts& counts);
  // Throws Error, on every rank, where some rank stepped the unit too early: the step has broken off then.
  void backward_ended(bool had_gradients, std::optional<UnitId> changed_too_early);
  void backward_abandoned();

  // A load takes the place of a step that broke off on any rank. A collective.
  void end_broken_step(Peers& peers);

 private:
  void step_candidates();
  void refuse_stepped(std::span<const UnitId> units, const char* event) const;
  std::vector<bool> stepped_units() const;
  void gather_next(UnitId unit, bool allowed);
  void end_early_gathers(Peers& peers);
  void break_off(const char* how);
  void end();

  const Facts& facts_;
  Schedule& schedule_;
  StepMachine& machine_;
  Executor& executor_;
  Performer& performer_;
  StepSum& sum_;
  ShardChanges& changes_;
  Rule rule_ = nullptr;             // of the scope
  std::vector<UnitId> candidates_;  // all gradients are in the sum, and the shard is not stepped
};

}  // namespace fsdp::schedule
