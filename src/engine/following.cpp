// Steps in which a rank has no batch: it follows those that have one.
#include "base/error.h"
#include "engine/model.h"

namespace fsdp::engine {

bool Model::any_rank_has_batch(bool here) {
  std::lock_guard lock(mutex_);
  check_no_step_begun("any_rank_has_batch");
  bool any = false;
  guarded([&] { any = agreement_.any_has_batch(here, schedule_->training().plan()); });
  schedule_->set_followed(!agreement_.has_common_plan());
  return any;
}

void Model::backward_without_batch() {
  std::lock_guard lock(mutex_);
  note_mode();
  piece_gradients_.check_open();
  FSDP_CHECK(agreement_.follows(),
             "backward_without_batch() is for a rank that has no batch where another has one. Ask "
             "any_rank_has_batch(false) on this rank first, and any_rank_has_batch(true) on the other.");
  if (written_) publish_all();
  torch::NoGradGuard no_grad;
  guarded([&] {
    perform(schedule_->follow());
    end_backward(follow());
  });
}

// Takes part in what the others do until the end of their backward, and returns what they agreed on there.
std::vector<int64_t> Model::follow() {
  const bool listens =
      schedule_->shares_buffers() && !units_.empty() && !units_[0]->collectives->capabilities().one_sided;
  if (!listens) {
    perform(schedule_->repeat_reductions());
    return agree_on_account();
  }
  for (;;) {
    const Agreement::Leaders leaders = agreement_.follow(schedule_->account());
    if (!leaders.gathered_unit) return leaders.account;
    gather_for_others(*leaders.gathered_unit);
    reduce_rest(leaders.account);
  }
}

void Model::gather_for_others(int id) {
  Unit& unit = *units_[id];
  count_gather(unit, /*foreseen=*/false);
  recorder_.begins(Activity::Gather, id);
  const bool into_buffer = unit.collectives->capabilities().into_buffer;
  torch::Tensor buffer;
  if (into_buffer) buffer = arena_->full.at(0, unit.layout.full_numel(), unit.dtype());
  unit.collectives->begin_gather(buffer, collectives::Order::Common);
  wait_gather(id);
  unit.collectives->release();
  if (into_buffer) arena_->full.release(0);
}

}  // namespace fsdp::engine
