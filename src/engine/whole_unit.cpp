#include "engine/whole_unit.h"

namespace fsdp::engine {

torch::Tensor gather_whole(ShardedUnit& unit, collectives::Order order) {
  torch::Tensor full = torch::empty({unit.layout.full_numel()}, torch::dtype(unit.dtype()).device(unit.device()));
  const bool into_buffer = unit.collectives->capabilities().into_buffer;
  unit.collectives->begin_gather(into_buffer ? full : torch::Tensor(), order);
  void* bytes = unit.collectives->wait_gather();
  if (bytes != full.data_ptr()) full.copy_(torch::from_blob(bytes, full.sizes(), full.options()));
  unit.collectives->release();
  return full;
}

// Gathers move the dtype of full parameters. The shards of others are told by their owners in the first shard group.
torch::Tensor gather_whole_fp32(ShardedUnit& unit, collectives::Group& group) {
  if (!unit.is_divided()) return unit.shard;
  if (unit.dtype() == torch::kFloat32) return gather_whole(unit);
  torch::Tensor full = torch::empty({unit.layout.full_numel()}, unit.shard.options());
  for (int owner = 0; owner < unit.layout.shards(); ++owner) {
    const layout::Range range = unit.layout.shard_of(owner);
    torch::Tensor part = full.slice(0, range.begin, range.end);
    if (owner == group.rank()) part.copy_(unit.shard);
    group.broadcast_(part, owner);
  }
  return full;
}

void write_changes(ShardedUnit& unit, const torch::Tensor& full, int rank) {
  const layout::Range own = unit.layout.shard_of(rank);
  torch::Tensor& shard = unit.shard;
  const torch::Tensor values = full.slice(0, own.begin, own.end).to(shard.device());
  if (values.scalar_type() == shard.scalar_type()) {
    shard.copy_(values);
    return;
  }
  const torch::Tensor before = shard.to(values.scalar_type());
  const torch::Tensor same = before.view(torch::kInt16) == values.view(torch::kInt16);
  shard.copy_(torch::where(same, shard, values.to(torch::kFloat32)));
}

}  // namespace fsdp::engine
