// The orders of uses in periods whose end is told: training micro-batches, or backwards whose forward lies in an
// earlier period.
//
// The periods of a step may differ: a discriminator is used twice in one and once in the next, the forwards of several
// micro-batches lie before the first backward. So the orders of several are kept. A period is expected to be what came
// last time after the period before it, in the step; one that turns out to be another with the same beginning is
// followed from there on. Pure; not for concurrent use.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "schedule/use_order.h"

namespace fsdp::schedule {

class PeriodOrder final : public UseOrder {
 public:
  PeriodOrder() : UseOrder(/*repeats=*/false) {}

  void use(UnitId unit, Mode mode);
  // The period is over, and its order known from now on.
  void finish();
  // The period is given up, for example because a backward threw; nothing is learnt from it.
  void abandon();
  // Gives it up, too, and returns what it used.
  std::vector<UnitId> take_recording();
  // The next period is the first of a step.
  void end_step();

  // All that plans are made from, as numbers: equal where the plans will be.
  std::vector<int> learnt() const;
  void forget_all();
  // The units that this period used so far.
  const std::vector<UnitId>& recording() const { return recorded_; }

  // True if the plan's next use is this one, without gradients, at the beginning of a forward: that of a checkpointed
  // block.
  bool begins_without_gradients(UnitId unit) const;
  // True if the unit is expected among the first `uses` uses of the next step.
  bool begins_next_step_with(UnitId unit, int uses) const;

 private:
  struct Period {
    std::vector<UnitId> uses;
    size_t without_gradients = 0;  // of them, at the beginning
    std::optional<size_t> next;    // the period that came after it in a step, last time
    uint64_t ended_at = 0;         // the last time, by the clock
  };

  // Another period has the same beginning and goes on with `unit`: it is followed from now on.
  bool turn(UnitId unit);
  size_t learn();
  void forget(size_t period);
  void expect(std::optional<size_t> period);
  void begin_period();

  std::vector<Period> periods_;
  std::optional<size_t> expected_;  // the plan
  std::optional<size_t> first_;     // of a step, last time
  std::optional<size_t> previous_;  // in this step
  size_t without_gradients_ = 0;    // uses at the beginning of this period
  uint64_t clock_ = 0;
};

}  // namespace fsdp::schedule
