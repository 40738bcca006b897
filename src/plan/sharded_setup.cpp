#include "plan/sharded_setup.h"

#include <string>
#include <utility>
#include <vector>

#include "base/error.h"

namespace fsdp::plan {

namespace {

void check(const ShardedSetup& setup) {
  FSDP_CHECK(setup.strategy < schedule::kStrategies.size(), "simulate: found strategy {}, expected one below {}",
             setup.strategy, schedule::kStrategies.size());
  FSDP_CHECK(setup.units > 0, "simulate: found {} units, expected at least 1", setup.units);
  FSDP_CHECK(setup.ranks > 0 && setup.shards > 0 && setup.ranks % setup.shards == 0,
             "simulate: found a group of {} ranks on {}, expected a divisor of the number of ranks", setup.shards,
             setup.ranks);
  FSDP_CHECK(setup.buffers >= 2, "simulate: found buffers {}, expected at least 2", setup.buffers);
  FSDP_CHECK(setup.prefetch >= 0, "simulate: found prefetch {}, expected 0 or more", setup.prefetch);
}

constexpr double StepTotals::*kTotals[] = {&StepTotals::step,    &StepTotals::compute,    &StepTotals::optimizer,
                                           &StepTotals::gathers, &StepTotals::reductions, &StepTotals::end_of_backward,
                                           &StepTotals::idle};

}  // namespace

RankToSimulate rank_of(const ShardedSetup& setup) {
  check(setup);
  std::vector<std::string> names;
  for (int unit = 0; unit < setup.units; ++unit) names.push_back(std::to_string(unit));
  const bool sums_in_place = setup.way == GatherWay::SharedMemory && setup.ranks > 1 && setup.shards == 1;
  RankToSimulate rank{.facts = schedule::facts_of(std::move(names), 0, setup.ranks, setup.shards),
                      .limits = schedule::limits_of(setup.units, setup.buffers, setup.prefetch,
                                                    schedule::kStrategies[setup.strategy].full_until, sums_in_place)};
  // A rank that shares its shards with no other needs no peer for a gather.
  rank.facts.one_sided = setup.way == GatherWay::SharedMemory || setup.shards == 1;
  rank.facts.any_order = rank.facts.one_sided || setup.way == GatherWay::Messages;
  const bool can_join = setup.way == GatherWay::Messages || (setup.way == GatherWay::Streams && setup.shards > 1);
  rank.facts.joins = can_join && setup.ranks > 1;
  return rank;
}

StepTotals steady_totals(RankToSimulate rank, const TrainingStep& step) {
  constexpr int kSimulated = 4;
  const auto totals_of = [&](int micro_batches) {
    TrainingStep shorter = step;
    shorter.micro_batches = micro_batches;
    rank.events = events_of(shorter);
    return simulate_steady_step(rank).totals;
  };
  if (step.micro_batches <= kSimulated) return totals_of(step.micro_batches);
  const StepTotals fewer = totals_of(kSimulated - 1);
  StepTotals totals = totals_of(kSimulated);
  for (auto total : kTotals) totals.*total += (step.micro_batches - kSimulated) * (totals.*total - fewer.*total);
  return totals;
}

}  // namespace fsdp::plan
