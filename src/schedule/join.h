// Steps in which some rank has no batch: it follows the ranks with one, because it owns a part of every parameter.
#pragma once

#include "schedule/backward_end.h"

namespace fsdp::schedule {

class Join {
 public:
  // All outlive it.
  Join(const Facts& facts, Schedule& schedule, Agreement& agreement, Executor& executor, BackwardEnd& backward_end)
      : facts_(facts), schedule_(schedule), agreement_(agreement), executor_(executor), backward_end_(backward_end) {}

  // True if any rank has a batch for the next backward. A collective.
  bool any_rank_has_batch(bool here);
  // In place of the forward and backward of the others. A collective. Returns the ranks' largest counts at the end.
  UnitCounts follow();

 private:
  UnitCounts listen();
  Round enter_round();

  const Facts& facts_;
  Schedule& schedule_;
  Agreement& agreement_;
  Executor& executor_;
  BackwardEnd& backward_end_;
};

}  // namespace fsdp::schedule
