#include "api/strategy.h"

#include "base/error.h"
#include "engine/strategy_name.h"
#include "schedule/strategies.h"

namespace fsdp {

namespace {

using Group = schedule::StrategyMeaning::Group;

// Shard groups are consecutive ranks, so hosts must be, too.
int ranks_of_a_host(const World& world, const char* strategy) {
  const int first = world.rank() - world.local_rank();
  FSDP_CHECK(
      world.size() % world.local_size() == 0 && first % world.local_size() == 0,
      "shard: {} puts a copy of the model on each host, but rank {} is number {} of {} on its host, in a world of "
      "{}. Start as many ranks on every host, one host's after another's (SLURM: --distribution=block), or set "
      "options.shard_group_size.",
      strategy, world.rank(), world.local_rank(), world.local_size(), world.size());
  return world.local_size();
}

}  // namespace

Sharding sharding_of(const Options& options, const World& world) {
  const char* name = name_of(options.strategy);
  const auto& [_, option, group, full_until] = schedule::kStrategies.at(static_cast<size_t>(options.strategy));
  const int size = options.shard_group_size;
  if (group == Group::Rank) {
    FSDP_CHECK(size == 0 || size == 1,
               "shard: found shard_group_size {} with {}, which keeps all of the state on every "
               "rank. Leave it at 0, or choose another strategy.",
               size, name);
    return {1, full_until};
  }
  if (size == 0) return {group == Group::World ? world.size() : ranks_of_a_host(world, name), full_until};
  FSDP_CHECK(size > 0 && world.size() % size == 0,
             "shard: found shard_group_size {} on {} ranks, expected 0 or a divisor of the number of ranks", size,
             world.size());
  return {size, full_until};
}

}  // namespace fsdp
