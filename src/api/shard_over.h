// `shard` for ranks whose group is not the World's own.
#pragma once

#include <functional>
#include <memory>

#include "api/tensor_parallel/whole_values.h"
#include "collectives/group.h"
#include "fsdp/sharded_model.h"

namespace fsdp {

using MakeGroup = std::function<std::unique_ptr<collectives::Group>()>;

// As `shard`, over the group of the world's ranks that `make_group` makes: called once, when all is checked, on every
// rank. `name_of` is for messages about ranks of other axes.
ShardedModel shard_over(
    const MakeGroup& make_group, torch::nn::Module& module, World& world, const Options& options,
    const RankName& name_of = [](int rank) { return "rank " + std::to_string(rank); });

}  // namespace fsdp
