// An optimizer's step: one unit after the other is opened, updated and published, after the backward or, in a scope of
// step_in_backward, while it still runs.
//
// In the scope, a rank *leaves* a unit when its backward is done with it, which the record of the last backward tells.
// It writes its shard of the unit once all its peers have left the unit, and does not wait for them: `step` does the
// rest. So each rank may step other units early, and the result is the same. A unit's gradients are freed as soon as it
// is stepped. The model's lock covers all calls.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/early_units.h"
#include "engine/model_gradients.h"
#include "engine/shard_writer.h"

namespace fsdp::engine {

// An optimizer's change of a unit's shard, which may be written, by its gradients times the factors. It writes what it
// changes in the dtype of full parameters as well, where that is another one.
using UnitUpdate = std::function<void(const ShardedUnit& unit, const GradientFactors& factors)>;

class OptimizerStep {
 public:
  // All outlive it.
  OptimizerStep(Executor& executor, Units& units, schedule::Schedule& schedule, schedule::StepMachine& machine,
                Recorder& recorder, ModelGradients& gradients, ShardWriter& writer);

  // A whole step, or the rest of one that this update began inside the backward. The sum of the gradients has ended.
  void step(const std::shared_ptr<const UnitUpdate>& update);

  // The scope of step_in_backward. Its update gets units while the backward runs, where that is possible.
  void open_scope(std::weak_ptr<const UnitUpdate> update);
  void close_scope() noexcept;
  // The update will not be given anything any more: a step that it has begun breaks off.
  void forget(const std::shared_ptr<const UnitUpdate>& update) noexcept;

  // In the scope's backward. Some reductions were waited for.
  void reduced(const schedule::Actions& actions);
  // Steps the units that can be stepped now; the operator that runs next began at `touched`.
  void step_early(int64_t touched) {
    if (!early_.candidates().empty()) step_candidates(touched);
  }
  void check_not_stepped(std::span<const int> units, const char* event) const {
    if (machine_.early_step() != schedule::EarlyStepPhase::None) refuse_stepped(units, event);
  }
  // Before the end, by what the ranks agreed on.
  void backward_finishes(const schedule::UnitCounts& counts);
  // Throws Error, on every rank, where some rank stepped the unit too early: the step has broken off then.
  void backward_ended(bool had_gradients, std::optional<int> changed_too_early);
  void backward_abandoned();

  bool stepped_any() const { return early_.stepped_any(); }
  // A load takes the place of a step that broke off on any rank. A collective.
  void end_broken_step(collectives::Group& group);

 private:
  void step_candidates(int64_t touched);
  void refuse_stepped(std::span<const int> units, const char* event) const;
  bool leave(int unit);
  void write(int unit, const UnitUpdate& update, const GradientFactors& factors, int64_t computed_until);
  void gather_next(int unit, bool allowed);
  void end_early_gathers(collectives::Group& group);
  void break_off(const char* how);
  void end();

  Executor& executor_;
  Units& units_;
  schedule::Schedule& schedule_;
  schedule::StepMachine& machine_;
  Recorder& recorder_;
  ModelGradients& gradients_;
  ShardWriter& writer_;
  std::weak_ptr<const UnitUpdate> update_;
  EarlyUnits early_;
};

}  // namespace fsdp::engine
