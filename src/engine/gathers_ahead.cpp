// Gathers for the next micro-batch, while the optimizer steps.
#include "engine/model.h"

namespace fsdp::engine {

// Where a step has begun inside of the backward, ranks may have stepped other units by now.
void Model::gather_next(int id) {
  for (const schedule::Action& action : schedule_->shard_changed(id)) {
    gather(action, step_.open() ? collectives::Order::Any : collectives::Order::Common);
    Unit& unit = *units_[action.unit];
    unit.gathered_ahead = unit.layout.shards() > 1;
  }
}

// What one rank has gathered early, and will not use, waits for the others.
void Model::end_early_gathers() {
  torch::Tensor early = torch::zeros({static_cast<int64_t>(units_.size())}, torch::kUInt8);
  for (int id = 0; id < static_cast<int>(units_.size()); ++id) early[id] = schedule_->gathered_early(id);
  torch::Tensor anywhere = torch::zeros_like(early);
  for (const torch::Tensor& one : group_->all_gather(early, "loads a checkpoint")) anywhere |= one;
  for (int id = 0; id < static_cast<int>(units_.size()); ++id) {
    if (schedule_->gathered_early(id) || !anywhere[id].item<bool>()) continue;
    Unit& unit = *units_[id];
    if (unit.collectives->capabilities().one_sided) continue;
    torch::Tensor buffer;
    if (unit.collectives->capabilities().into_buffer)
      buffer = torch::empty({unit.layout.full_numel()}, on_device(unit.dtype()));
    unit.collectives->begin_gather(buffer, collectives::Order::Any);
    unit.collectives->wait_gather();
    unit.collectives->release();
  }
}

}  // namespace fsdp::engine
