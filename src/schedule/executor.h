// Has the schedule's actions performed, and takes part in the rounds that they need.
//
// Its first error poisons it: ranks no longer agree on what was exchanged, so every later call throws the same again.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/failure_latch.h"
#include "schedule/agreement.h"
#include "schedule/performer.h"
#include "schedule/schedule.h"
#include "schedule/step_machine.h"

namespace fsdp::schedule {

// How often units were exchanged with peers.
struct ExchangeCounts {
  int64_t gathers = 0;
  int64_t foreseen_gathers = 0;  // of these, by a plan
  int64_t reductions = 0;
  int64_t all_reductions = 0;  // of these, also over replicas
  int64_t late_gradients = 0;  // that came after the unit's reduction
};

class Executor {
 public:
  // All outlive it.
  Executor(const Facts& facts, Schedule& schedule, const StepMachine& machine, Agreement& agreement,
           Performer& performer, Peers& peers)
      : facts_(facts),
        schedule_(schedule),
        machine_(machine),
        agreement_(agreement),
        performer_(performer),
        peers_(peers) {}

  // `operation` names the operator that the actions are for, if there is one.
  void perform(const Actions& actions, std::string_view operation = {});
  // Begins gathers for the next micro-batch, in the order that ranks have in common or in any.
  void gather_ahead(const Actions& gathers, Order order);
  // Performer::change_full, for which no read goes on beside the program any more.
  void change_full(UnitId unit, const std::function<void()>& change);
  // Enters a round, and takes part in its gathers. `own`: this rank's own gather, if it has one.
  Round enter_round(RankReport report, const Action* own = nullptr);
  // All ranks have ended a backward. Does nothing if gathers need no rounds.
  void all_ended_backward();
  // True if the unit's reduction, which is under way, does not end before this rank goes on.
  bool reduction_stalls(UnitId unit);
  // A backward's reductions are over, as Performer::end_reductions.
  std::vector<UnitId> end_reductions(bool everywhere);
  // Waits for what replicas of the shards add up.
  void await_sums();

  // Runs `body`, which talks to other ranks, unless something failed before.
  template <typename Body>
  auto guarded(Body body) {
    return latch_.run(std::move(body));
  }
  void check_not_failed() const { latch_.check(); }
  bool failed() const { return latch_.failed(); }

  const ExchangeCounts& counts() const { return counts_; }
  void count_late_gradient() { ++counts_.late_gradients; }

 private:
  void perform(const Action& action, std::string_view operation);
  void gather(const Action& action, Order order, std::string_view operation = {});
  Order order_of(Order order) const { return agreement_.in_rounds() ? Order::Any : order; }
  void gather_for_peers(UnitId unit);
  void await_gather(UnitId unit);
  void await_peers(UnitId unit);
  void count_gather(bool foreseen);
  void take_part(const Round& round, const Action* own);
  void reduce(const Action& action);
  void await_buffer(const Action& action);
  void await_reduction(const Action& action);

  const Facts& facts_;
  Schedule& schedule_;
  const StepMachine& machine_;
  Agreement& agreement_;
  Performer& performer_;
  Peers& peers_;
  ExchangeCounts counts_;
  FailureLatch latch_;
};

}  // namespace fsdp::schedule
