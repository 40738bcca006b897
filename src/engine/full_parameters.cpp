// The scope in which the module's parameters are whole, in memory of their own.
#include "base/error.h"
#include "engine/full_scope.h"
#include "engine/model.h"

namespace fsdp::engine {

namespace {

// Where full parameters have fewer bits than the shard, what was not written keeps all of the shard's.
void write_changes(torch::Tensor& shard, const torch::Tensor& full) {
  if (full.scalar_type() == shard.scalar_type()) {
    shard.copy_(full);
    return;
  }
  const torch::Tensor before = shard.to(full.scalar_type());
  const torch::Tensor same = before.view(torch::kInt16) == full.view(torch::kInt16);
  shard.copy_(torch::where(same, shard, full.to(torch::kFloat32)));
}

}  // namespace

void Model::open_full() {
  FSDP_CHECK(!full_, "full_parameters() is open already. Close the first scope before opening another.");
  begin_write();
  std::lock_guard lock(mutex_);
  torch::NoGradGuard no_grad;
  guarded([&] {
    for (auto& unit : units_) {
      unit->full = torch::empty({unit->layout.full_numel()}, torch::dtype(unit->dtype()));
      unit->collectives->begin_gather(unit->full);
      void* bytes = unit->collectives->wait_gather();
      if (bytes != unit->full.data_ptr())
        unit->full.copy_(torch::from_blob(bytes, unit->full.sizes(), unit->full.options()));
      unit->collectives->release();
      unit->storage->bind(unit->full.data_ptr());
      unit->storage->allow_access();
    }
  });
  full_ = true;
}

void Model::close_full(bool write_back) {
  torch::NoGradGuard no_grad;
  {
    std::lock_guard lock(mutex_);
    if (!full_) return;
    full_ = false;
    for (auto& unit : units_) {
      unit->storage->unbind();
    }
  }
  if (write_back) {
    begin_write();
    for (auto& unit : units_) {
      const layout::Range own = unit->layout.shard_of(group_->rank());
      write_changes(unit->shard, unit->full.slice(0, own.begin, own.end));
    }
    publish();
  }
  for (auto& unit : units_) unit->full = torch::Tensor();
}

}  // namespace fsdp::engine
