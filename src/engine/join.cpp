#include "engine/join.h"

#include "base/error.h"
#include "engine/refuse.h"

namespace fsdp::engine {

bool Join::any_rank_has_batch(bool here) {
  const bool any = executor_.guarded([&] { return agreement_.any_has_batch(here, schedule_.learnt()); });
  if (!agreement_.plans_alike()) schedule_.forget_plans();
  schedule_.set_followed(agreement_.followed());
  return any;
}

UnitCounts Join::follow() {
  if (!agreement_.follows()) refuse(schedule::Misuse::NotWithoutBatch, "");
  executor_.perform(schedule_.follow());
  const bool listens =
      schedule_.shares_buffers() && !units_.empty() && !units_[0]->collectives->capabilities().one_sided;
  if (listens) return listen();
  executor_.perform(schedule_.repeat_reductions());
  return post_backward_.agree();
}

// Takes part in what the others do until the end of their backward.
UnitCounts Join::listen() {
  for (;;) {
    const auto round = executor_.guarded([&] {
      auto entered =
          agreement_.enter_round({.activity = schedule::RankActivity::Follows, .counts = schedule_.counts()});
      FSDP_CHECK(entered.any_batch,
                 "every rank calls backward_without_batch(), though one said that it has a batch. Call it where "
                 "any_rank_has_batch(false) was called, and run the backward where any_rank_has_batch(true) was.");
      return entered;
    });
    executor_.take_part(round);
    if (round.ended) return round.counts;
    post_backward_.reduce_rest(round.counts);
  }
}

}  // namespace fsdp::engine
