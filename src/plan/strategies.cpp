#include "plan/strategies.h"

#include <fmt/format.h>
#include <fsdp/plan.h>

#include <string>

#include "base/error.h"
#include "plan/checks.h"

namespace fsdp::plan {

namespace {

using schedule::FullUntil;
using schedule::StrategyMeaning;
using Group = StrategyMeaning::Group;

int64_t group_of(const StrategyMeaning& strategy, int64_t ranks, int64_t hosts) {
  switch (strategy.group) {
    case Group::World:
      return ranks;
    case Group::Host:
      return ranks / hosts;
    case Group::Rank:
      return 1;
  }
  return ranks;
}

}  // namespace

const StrategyMeaning& named_strategy(std::string_view name) {
  std::string names;
  for (const StrategyMeaning& strategy : schedule::kStrategies) {
    if (strategy.option == name) return strategy;
    names.append(names.empty() ? "" : ", ").append(strategy.option);
  }
  throw Error(fmt::format("found the strategy {:?}, expected one of {}", name, names));
}

Sharding sharding_of(std::string_view name, int64_t ranks, int64_t hosts, int64_t group) {
  const StrategyMeaning& strategy = named_strategy(name);
  check_ranks(ranks, hosts);
  FSDP_CHECK(
      strategy.group != Group::Rank || group == 0 || group == 1,
      "plan: found a group of {} ranks with no-shard, which keeps all of the state on every rank. Leave it at 0, "
      "or choose another strategy.",
      group);
  Sharding sharding{.ranks = ranks,
                    .hosts = hosts,
                    .group = group == 0 ? group_of(strategy, ranks, hosts) : group,
                    .full_for_the_step = strategy.full_until == FullUntil::ShardsChange,
                    .shares_buffers = strategy.full_until == FullUntil::BufferNeeded};
  check_sharding(sharding);
  return sharding;
}

}  // namespace fsdp::plan
