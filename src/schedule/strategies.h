// The meaning of each strategy for the order of a step. The engine and the planner read the same table. Pure.
#pragma once

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "schedule/performer.h"
#include "schedule/schedule.h"

namespace fsdp::schedule {

struct StrategyMeaning {
  // The ranks that hold the model once, unless the user chooses a number.
  enum class Group { World, Host, Rank };

  const char* name;    // of fsdp::Strategy
  const char* option;  // as fsdp-train has it
  Group group;
  FullUntil full_until;
};

// In the order of fsdp::Strategy.
inline constexpr std::array kStrategies{
    StrategyMeaning{"FullShard", "full-shard", StrategyMeaning::Group::World, FullUntil::BufferNeeded},
    StrategyMeaning{"ShardGradOp", "shard-grad-op", StrategyMeaning::Group::World, FullUntil::EndOfBackward},
    StrategyMeaning{"ShardOptimizer", "shard-optimizer", StrategyMeaning::Group::World, FullUntil::ShardsChange},
    StrategyMeaning{"NoShard", "no-shard", StrategyMeaning::Group::Rank, FullUntil::ShardsChange},
    StrategyMeaning{"HybridShard", "hybrid-shard", StrategyMeaning::Group::Host, FullUntil::BufferNeeded},
    StrategyMeaning{"HybridShardGradOp", "hybrid-shard-grad-op", StrategyMeaning::Group::Host,
                    FullUntil::EndOfBackward}};

// The limits of a model of so many units. `sums_in_place`: a unit's gradients can become their own sum. If units stay
// full until the shards change, they do: each unit has a gradient buffer of its own, which takes no further memory.
inline Limits limits_of(int units, int buffers, int prefetch, FullUntil full_until, bool sums_in_place) {
  Limits limits{.units = units, .buffers = buffers, .prefetch = prefetch, .full_until = full_until};
  if (sums_in_place && full_until == FullUntil::ShardsChange) limits.gradient_buffers = units;
  return limits;
}

// The facts of a model whose copies of the state lie on `shards` consecutive ranks each. `shards` divides `ranks`. The
// backend's facts are added by the caller.
inline Facts facts_of(std::vector<std::string> units, int rank, int ranks, int shards) {
  Facts facts{.units = std::move(units), .rank = rank, .ranks = ranks, .shards = shards, .sharers = {}};
  for (int peer = 0; peer < ranks; ++peer) facts.sharers.push_back(peer / shards == rank / shards);
  return facts;
}

}  // namespace fsdp::schedule
