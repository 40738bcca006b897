// `shard` for ranks whose group is not the World's own.
#pragma once

#include <functional>
#include <memory>

#include "collectives/group.h"
#include "fsdp/sharded_model.h"

namespace fsdp {

using MakeGroup = std::function<std::unique_ptr<collectives::Group>()>;

// As `shard`, over the group of the world's ranks that `make_group` makes: called once, when all is checked, on every
// rank.
ShardedModel shard_over(const MakeGroup& make_group, torch::nn::Module& module, World& world, const Options& options);

}  // namespace fsdp
