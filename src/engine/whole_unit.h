// One unit whole: for scopes of full_parameters, for full_state, for saves, and where peers gather what this rank does
// not use.
//
// The unit is not full before (StepDriver::release_all). Every rank receives what its shard group lacks, once.
// Collectives.
#pragma once

#include <torch/types.h>

#include "collectives/group.h"
#include "engine/sharded_unit.h"

namespace fsdp::engine {

// The unit as operators see it: [full_numel] of the dtype of its full parameters, in memory of its own.
torch::Tensor gather_whole(ShardedUnit& unit, collectives::Order order = collectives::Order::Common);

// The unit as its shards hold it: [full_numel], fp32. Not to be written.
torch::Tensor gather_whole_fp32(ShardedUnit& unit, collectives::Group& group);

// Writes the rank's part of a whole unit to its shard, between begin_write and publish. If full parameters have fewer
// bits than the shard, elements that were not changed keep all of the shard's. No collective.
void write_changes(ShardedUnit& unit, const torch::Tensor& full, int rank);

}  // namespace fsdp::engine
