// Performs the verbs of a step by letting time pass, and notes each as an action. It has so many functions because each
// verb is one.
#pragma once

#include <functional>
#include <vector>

#include "plan/action_list.h"
#include "plan/rank_exchange.h"
#include "plan/simulation.h"
#include "plan/step_clock.h"
#include "schedule/performer.h"

namespace fsdp::plan {

class TimedPerformer final : public schedule::Performer {
 public:
  // All outlive it.
  TimedPerformer(const schedule::Facts& facts, const StepDurations& durations, RankExchange& exchange, StepClock& clock,
                 ActionList& actions);

  // The end of a backward begins, or is over.
  void set_in_end(bool in_end) { in_end_ = in_end; }
  bool in_end() const { return in_end_; }
  // Some reduction has been waited for since `drop_gradients`.
  bool has_gradients() const { return has_gradients_; }
  void drop_gradients() { has_gradients_ = false; }
  // Gradients of the unit are kept aside.
  bool has_late(UnitId unit) const { return units_[unit].has_late; }
  void keep_late(UnitId unit) { units_[unit].has_late = true; }

  void gather(UnitId unit, int buffer, Order order) override;
  bool gather_stalls(UnitId unit) override;
  void await_gather(UnitId unit) override;
  void gather_for_peers(UnitId unit, int spare) override;
  void release(UnitId unit, int buffer) override;
  void open_gradients(UnitId unit, int buffer) override;
  void reduce(UnitId unit, int buffer) override;
  Begun has_begun(UnitId unit) override;
  void await_reduction(UnitId unit, int buffer, bool used_at_once) override;
  void move_gradients(int, int) override {}
  std::vector<UnitId> end_reductions(bool, bool, int) override { return {}; }
  void await_sums() override;
  bool sum_is_complete(UnitId) override { return true; }
  void await_readers() override {}
  bool begin_write(UnitId unit, Readers readers) override;
  void publish(UnitId unit) override;
  void begin_all_writes() override {}
  void publish_all() override {}
  void change_full(UnitId, Order, const std::function<void()>& change) override { change(); }
  void mark_changed() override {}
  void begin_updates() override {}
  void update(UnitId unit, bool early) override;
  void read_ahead(UnitId) override {}

 private:
  using Kind = SimulatedAction::Kind;
  using Stream = SimulatedAction::Stream;
  using Deed = RankExchange::Deed;
  using Who = RankExchange::Who;
  // The collective of a unit that is under way.
  struct Transfer {
    size_t number = 0;  // in its stream
    ActionList::Place action = {};
    size_t count = 0;  // of its kind
    double issued = 0;
  };
  struct Unit {
    Transfer gather = {}, reduction = {};
    double replicated = 0;  // when its sum is with the replicas; or the seconds that the rank itself needs for that
    bool has_late = false;
  };

  Transfer begin_transfer(Kind kind, TransferStream& stream, UnitId unit, int buffer, double ready, double seconds);
  // The end of the transfer, for which the last peer is ready at `peers`.
  double end_of(TransferStream& stream, const Transfer& transfer, double peers);
  void wait_for(Kind wait, UnitId unit, double until, double seconds, Cause cause);
  Interval moment() const { return {clock_.now(), clock_.now()}; }

  const schedule::Facts& facts_;
  const StepDurations& durations_;
  RankExchange& exchange_;
  StepClock& clock_;
  ActionList& actions_;
  std::vector<Unit> units_;
  std::vector<double> buffers_free_;  // by buffer: the end of the operators on the last unit in it
  bool has_gradients_ = false;
  bool in_end_ = false;
};

}  // namespace fsdp::plan
