#include "engine/post_backward.h"

#include "interpose/piece_storage.h"

namespace fsdp::engine {

// A rank may have no gradient of a unit that its peers have one of; it takes part in the reduction all the same.
UnitCounts PostBackward::agree() {
  const bool together = !machine_.in_no_sync() || agreement_.followed() || agreement_.in_rounds();
  if (alone() || !together) return schedule_.counts();
  for (;;) {
    const auto round = executor_.guarded([&] {
      return agreement_.enter_round({.activity = schedule::RankActivity::EndsBackward, .counts = schedule_.counts()});
    });
    executor_.take_part(round);
    if (round.ended) return round.counts;
  }
}

std::vector<int> PostBackward::finish(const UnitCounts& counts) {
  reduce_rest(counts);
  executor_.perform(schedule_.backward_ends(counts));
  executor_.wait_sums();
  std::vector<int> corrected = executor_.reductions_end(/*everywhere=*/true);
  settle_open_units();
  local_sums_ = machine_.in_no_sync();
  agreement_.backward_ends();
  schedule_.set_followed(false);
  executor_.all_ended_backward();
  machine_.backward_ends();
  return corrected;
}

// Gradients that wait for their places would take more memory until the next backward.
void PostBackward::settle_open_units() {
  torch::NoGradGuard no_grad;
  interpose::Unwatched ours;
  for (auto& unit : units_) unit->gradients.settle();
}

void PostBackward::reduce_rest(const UnitCounts& counts) {
  for (schedule::Actions next; !(next = schedule_.reduce_next(counts)).empty();) executor_.perform(next);
}

void PostBackward::reduce_local_sums() {
  if (machine_.in_no_sync() || !local_sums_) return;
  const UnitCounts counts = agree();
  reduce_rest(counts);
  executor_.perform(schedule_.open_ends());
  executor_.wait_sums();
  executor_.reductions_end(/*everywhere=*/true);
  local_sums_ = false;
}

void PostBackward::abandon() {
  executor_.perform(schedule_.backward_abandoned());
  executor_.reductions_end(/*everywhere=*/false);
  for (auto& unit : units_) unit->gradients.take_late();
  machine_.backward_abandoned(/*lost=*/local_sums_);
  local_sums_ = false;
}

void PostBackward::drop_local_sums() {
  if (local_sums_) abandon();
}

}  // namespace fsdp::engine
