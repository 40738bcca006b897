// The end of a backward, and what one that threw leaves behind.
#include <algorithm>

#include "base/error.h"
#include "engine/model.h"

namespace fsdp::engine {

void Model::backward_ends(int task) {
  std::lock_guard lock(mutex_);
  if (!backward_.close(task)) return;
  recorder_.computes_nothing();
  torch::NoGradGuard no_grad;
  guarded([&] { end_backward(agree_on_account()); });
}

void Model::end_backward(const std::vector<int64_t>& account) {
  check_reduced_once(account);
  // A unit of which a peer has another gradient is reduced once more: it, and what may wait for it, is left to step().
  const std::vector<int64_t> begun = schedule_->begun();
  const auto has_more = [&](int unit) { return account[unit] > begun[unit]; };
  if (std::ranges::any_of(step_.candidates(), has_more)) step_.forget_candidates();
  // The peers have come to the end, too, and so have left what they were to leave.
  if (!step_.candidates().empty()) step_early(recorder_.touched());
  reduce_rest(account);
  perform(schedule_->backward_ends(account));
  wait_sums();
  group_->reductions_end(/*everywhere=*/true);
  unreduced_ = no_sync_ > 0;
  buffers_.backward_ends(together());
  agreement_.backward_ends();
  schedule_->set_followed(false);
  // One in which no gradient came was of something else, as a gradient penalty's is.
  const auto came = std::span(account).last(units_.size());
  if (std::any_of(came.begin(), came.end(), [](int64_t gradients) { return gradients > 0; })) step_.backward_ends();
}

// A rank may have no gradient of a unit that its peers have one of; it takes part in the reduction all the same.
std::vector<int64_t> Model::agree_on_account() {
  if (alone() || (no_sync_ > 0 && !agreement_.followed())) return schedule_->account();
  return agreement_.ends_backward(schedule_->account());
}

void Model::reduce_rest(const std::vector<int64_t>& account) {
  for (schedule::Actions next; !(next = schedule_->reduce_next(account)).empty();) perform(next);
}

// What the backwards of no_sync scopes left with each rank, where none outside of them followed.
void Model::reduce_open() {
  if (no_sync_ > 0 || !unreduced_) return;
  guarded([&] {
    const std::vector<int64_t> account = agree_on_account();
    reduce_rest(account);
    perform(schedule_->open_ends());
    wait_sums();
    group_->reductions_end(/*everywhere=*/true);
  });
  unreduced_ = false;
}

void Model::wait_sums() {
  if (group_->size() == shards_) return;
  recorder_.waits(Activity::WaitReplicas, kNoUnit, [&] {
    for (auto& unit : units_) unit->collectives->wait_sum();
  });
}

void Model::abandon_backward() {
  perform(schedule_->backward_abandoned());
  group_->reductions_end(/*everywhere=*/false);
  for (auto& unit : units_) unit->gradients.take_late();
  step_.forget_candidates();
  if (step_.foreseen() && step_.left_any()) break_off_step("a backward in step_in_backward() threw");
}

}  // namespace fsdp::engine
