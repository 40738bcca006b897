// The messages between ranks while a step runs: rounds (round.h), and whether any rank has a batch.
//
// If the backend cannot join peers' gathers, all ranks with a batch must be at the same activity. Calls that are
// collectives say so; the caller latches their failures, as nothing can be exchanged after one.
#pragma once

#include <string>
#include <vector>

#include "schedule/performer.h"
#include "schedule/round.h"
#include "schedule/schedule.h"

namespace fsdp::schedule {

class Agreement {
 public:
  // All outlive it.
  Agreement(const Facts& facts, const Schedule& schedule, Peers& peers)
      : facts_(facts), schedule_(schedule), peers_(peers) {}

  // True if any rank has a batch for the next backward. Ranks without one follow the others until that backward ends. A
  // collective.
  bool any_has_batch(bool here);
  void backward_ends() { followed_ = follows_ = false; }
  bool followed() const { return followed_; }  // some rank has no batch
  bool follows() const { return follows_; }    // this one
  // True if all ranks had the same plans then: one may have gone another way.
  bool plans_alike() const { return plans_alike_; }

  // Enters a round: `report` has the activity, its unit and operator, written values, and the counts; the rest is
  // filled in here. A collective.
  Round enter_round(RankReport report);
  // True if all ranks reported in the last round that their reductions were as in the backward before.
  bool reductions_as_before() const { return as_before_; }
  // This rank has begun a gather that the plan foresaw.
  void has_begun(UnitId unit) { begun_.push_back(unit); }
  // True if gathers outside of plans need rounds, also at the end of a backward that reduces nothing.
  bool in_rounds() const {
    return facts_.count() > 0 && schedule_.shares_buffers() && facts_.joins && !facts_.one_sided;
  }

 private:
  std::vector<UnitId> exchange_gathers(const RankReports& reports);

  const Facts& facts_;
  const Schedule& schedule_;
  Peers& peers_;
  std::vector<UnitId> begun_;  // gathers that the plan foresaw, since the last round
  bool as_before_ = false;
  bool followed_ = false;
  bool follows_ = false;
  bool plans_alike_ = true;
};

}  // namespace fsdp::schedule
