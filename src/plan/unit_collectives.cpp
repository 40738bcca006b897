#include "plan/unit_collectives.h"

#include <algorithm>
#include <cmath>

namespace fsdp::plan {

namespace {

constexpr double kBucketBytes = 25e6;  // of DDP

Ring ring_of_ranks(int64_t ranks, const Hardware& hardware) { return {ranks, hardware.hosts_for(ranks)}; }

UnitRings rings_of(const ShardedRun& run, const Hardware& hardware) {
  const int64_t replicas = run.ranks / run.group;
  return {.group = ring_of_ranks(run.group, hardware), .replicas = {replicas, replicas}};
}

}  // namespace

UnitCollective unit_gather(double parameters, int64_t element, const UnitRings& rings) {
  return {.kind = Collective::AllGather, .bytes = static_cast<double>(element) * parameters, .ring = rings.group};
}

std::vector<UnitCollective> unit_reduction(double parameters, int64_t element, const UnitRings& rings) {
  const double bytes = static_cast<double>(element) * parameters;
  std::vector<UnitCollective> all = {{Collective::ReduceScatter, bytes, rings.group}};
  // Between replicas, each rank over a share of the network of its own.
  if (rings.replicas.ranks > 1)
    all.push_back({Collective::AllReduce, bytes / static_cast<double>(rings.group.ranks), rings.replicas});
  return all;
}

UnitCollective unit_gather(const ShardedRun& run, double parameters, const Hardware& hardware) {
  return unit_gather(parameters, run.pass.element, rings_of(run, hardware));
}

std::vector<UnitCollective> unit_reduction(const ShardedRun& run, double parameters, const ShardedEngine& engine,
                                           const Hardware& hardware) {
  if (engine.is_divided) return unit_reduction(parameters, run.reduction_element, rings_of(run, hardware));
  const double bytes = static_cast<double>(run.reduction_element) * parameters;
  const double buckets = std::max(1.0, std::nearbyint(4 * parameters / kBucketBytes));
  return {{Collective::AllReduce, bytes / buckets, ring_of_ranks(run.ranks, hardware), buckets}};
}

}  // namespace fsdp::plan
