#include "schedule/backward_end.h"

namespace fsdp::schedule {

// A rank may have no gradient of a unit that its peers have one of; it takes part in the reduction all the same.
UnitCounts BackwardEnd::agree() {
  const bool together = !machine_.in_no_sync() || agreement_.followed() || agreement_.in_rounds();
  if (facts_.alone() || !together) return schedule_.counts();
  for (;;) {
    const Round round = executor_.enter_round({.activity = RankActivity::EndsBackward, .counts = schedule_.counts()});
    if (round.ended) return round.counts;
  }
}

std::vector<UnitId> BackwardEnd::finish(const UnitCounts& counts) {
  reduce_rest(counts);
  executor_.perform(schedule_.backward_ends(counts));
  executor_.await_sums();
  std::vector<UnitId> corrected = executor_.end_reductions(/*everywhere=*/true);
  sums_.settle();  // gradients that wait for their places would take more memory until the next backward
  local_sums_ = machine_.in_no_sync();
  agreement_.backward_ends();
  schedule_.set_followed(false);
  executor_.all_ended_backward();
  machine_.backward_ends();
  return corrected;
}

void BackwardEnd::reduce_rest(const UnitCounts& counts) {
  for (Actions next; !(next = schedule_.reduce_next(counts)).empty();) executor_.perform(next);
}

void BackwardEnd::reduce_local_sums() {
  if (machine_.in_no_sync() || !local_sums_) return;
  const UnitCounts counts = agree();
  reduce_rest(counts);
  executor_.perform(schedule_.open_ends());
  executor_.await_sums();
  executor_.end_reductions(/*everywhere=*/true);
  local_sums_ = false;
}

void BackwardEnd::abandon() {
  executor_.perform(schedule_.backward_abandoned());
  executor_.end_reductions(/*everywhere=*/false);
  sums_.forget_late();
  machine_.backward_abandoned(/*lost=*/local_sums_);
  local_sums_ = false;
}

void BackwardEnd::drop_local_sums() {
  if (local_sums_) abandon();
}

}  // namespace fsdp::schedule
