#include "schedule/join.h"

#include "base/error.h"
#include "schedule/refuse.h"

namespace fsdp::schedule {

bool Join::any_rank_has_batch(bool here) {
  const bool any = executor_.guarded([&] { return agreement_.any_has_batch(here); });
  if (!agreement_.plans_alike()) schedule_.forget_plans();
  schedule_.set_followed(agreement_.followed());
  return any;
}

UnitCounts Join::follow() {
  if (!agreement_.follows()) refuse(Misuse::NotWithoutBatch, "");
  executor_.perform(schedule_.follow());
  if (schedule_.shares_buffers() && facts_.count() > 0 && !facts_.one_sided) return listen();
  executor_.perform(schedule_.repeat_reductions());
  return backward_end_.agree();
}

// Takes part in what the others do until the end of their backward.
UnitCounts Join::listen() {
  for (;;) {
    const Round round = enter_round();
    if (round.ended) return round.counts;
    backward_end_.reduce_rest(round.counts);
  }
}

Round Join::enter_round() {
  return executor_.guarded([&] {
    Round round = executor_.enter_round({.activity = RankActivity::Follows, .counts = schedule_.counts()});
    FSDP_CHECK(round.any_batch,
               "every rank calls backward_without_batch(), though one said that it has a batch. Call it where "
               "any_rank_has_batch(false) was called, and run the backward where any_rank_has_batch(true) was.");
    return round;
  });
}

}  // namespace fsdp::schedule
