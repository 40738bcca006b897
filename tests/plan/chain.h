// A chain of units, each used once in a forward and once in a backward, for simulations.
#pragma once

#include <string>
#include <vector>

#include "plan/simulation.h"
#include "schedule/strategies.h"

namespace fsdp::plan {

using schedule::FullUntil;

inline constexpr double kRounding = 1e-9;  // of sums of times

struct ChainSeconds {
  double forward = 4, backward = 8;  // per unit
  double gather = 1, reduce = 2, update = 0.5;
};

inline TrainingStep chain_step(int units, const ChainSeconds& seconds = {}) {
  TrainingStep step;
  for (UnitId unit = 0; unit < units; ++unit) step.forward.push_back({.units = {unit}, .seconds = seconds.forward});
  for (UnitId unit = units - 1; unit >= 0; --unit)
    step.backward.push_back({.units = {unit}, .seconds = seconds.backward, .gradients = {{unit, 2}}});
  return step;
}

// Rank 0 of `ranks`, over a network.
inline RankToSimulate chain_rank(int units, int ranks, FullUntil full_until = FullUntil::BufferNeeded,
                                 const ChainSeconds& seconds = {}) {
  std::vector<std::string> names;
  for (int unit = 0; unit < units; ++unit) names.push_back("layers." + std::to_string(unit));
  RankToSimulate rank{.facts = schedule::facts_of(names, 0, ranks, ranks),
                      .limits = schedule::limits_of(units, 2, 1, full_until, false),
                      .durations = {.gather = std::vector(units, seconds.gather),
                                    .reduce = std::vector(units, seconds.reduce),
                                    .update = std::vector(units, seconds.update)},
                      .events = events_of(chain_step(units, seconds))};
  rank.facts.joins = rank.facts.any_order = true;
  return rank;
}

}  // namespace fsdp::plan
