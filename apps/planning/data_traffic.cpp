#include "planning/data_traffic.h"

#include <algorithm>
#include <set>

#include "layout/gradient_layout.h"
#include "layout/unit_layout.h"
#include "planning/memory_plan.h"
#include "planning/stage_units.h"
#include "planning/unit_uses.h"

namespace trainer {

namespace {

using fsdp::layout::GradientLayout;
using fsdp::layout::UnitLayout;

// A rank of the data axis.
struct DataRank {
  int rank = 0, ranks = 1;
  int group = 1;  // ranks that hold the stage once
  bool on_gpus = false;
  std::vector<int64_t> hosts;  // of all

  bool is_here(int peer) const { return hosts[static_cast<size_t>(peer)] == hosts[static_cast<size_t>(rank)]; }
};

// On CPUs, ranks of a host share full units: a gather copies nothing there, and fetches others' shards once.
void add_gather(const DataRank& own, double shard_bytes, Traffic& gathers) {
  const int first = own.rank / own.group * own.group;
  double here = 0;
  for (int peer = first; peer < first + own.group; ++peer) here += own.is_here(peer) ? 1 : 0;
  gathers.within += own.on_gpus ? (here - 1) * shard_bytes : 0;
  gathers.across += (own.group - here) * shard_bytes / (own.on_gpus ? 1 : here);
}

// Each rank adds up a slice, and replicas exchange their slices of a shard. Hosts of CPUs send running sums in fp32.
void add_reduction(const DataRank& own, const UnitLayout& layout, const GradientLayout& gradients, double times,
                   double reduce_bytes, Traffic& reductions) {
  constexpr double kSumBytes = 4;
  const auto slice = static_cast<double>(gradients.slice_of(own.rank).numel());
  std::set<int64_t> other_hosts;
  for (int peer = 0; peer < own.ranks; ++peer) {
    if (peer == own.rank) continue;
    if (own.is_here(peer) || own.on_gpus) {
      reductions.add(times * slice * reduce_bytes, own.is_here(peer));
    } else if (other_hosts.insert(own.hosts[static_cast<size_t>(peer)]).second) {
      reductions.across += times * slice * kSumBytes;
    }
    if (layout.shard_index(peer) == layout.shard_index(own.rank))
      reductions.add(times * kSumBytes * static_cast<double>(gradients.slice_of(peer).numel()), own.is_here(peer));
  }
}

int group_of(const RunOptions& options, const std::vector<int64_t>& hosts, int64_t host) {
  if (options.strategy == "no-shard") return 1;
  if (options.shard_group_size > 0) return static_cast<int>(options.shard_group_size);
  const bool of_host = options.strategy.starts_with("hybrid");
  return static_cast<int>(of_host ? std::ranges::count(hosts, host) : std::ssize(hosts));
}

}  // namespace

void add_data_traffic(const RunOptions& options, bool on_gpus, const PlannedMesh& mesh,
                      const std::vector<int64_t>& hosts, const MeshCoordinates& at, RankTraffic& traffic) {
  const int pipeline_rank = static_cast<int>(at.pipeline);
  const DataRank own{.rank = static_cast<int>(at.data),
                     .ranks = static_cast<int>(mesh.data),
                     .group = group_of(options, hosts, hosts[static_cast<size_t>(at.data)]),
                     .on_gpus = on_gpus,
                     .hosts = hosts};
  const PlannedSharding sharding = planned_sharding(options);
  const UnitTimes times = unit_times(mesh, options, pipeline_rank);
  const std::vector<PlannedUnit> units = units_of_rank(mesh, options, pipeline_rank, at.tensor);
  for (size_t i = 0; i < units.size(); ++i) {
    std::vector<int64_t> numels;
    std::vector<uint8_t> trained;
    for (const PlannedParameter& parameter : units[i]) {
      numels.push_back(parameter.numel);
      trained.push_back(parameter.is_trained ? 1 : 0);
    }
    const UnitLayout layout(numels, own.ranks, own.group);
    const GradientLayout gradients(layout, trained);
    if (own.group > 1) {
      traffic.gathers_count += times.gathers[i];
      add_gather(own, static_cast<double>(times.gathers[i] * layout.shard_numel() * sharding.param_bytes),
                 traffic.gathers);
    }
    if (gradients.full_numel() == 0) continue;
    traffic.reductions_count += times.reductions[i];
    add_reduction(own, layout, gradients, static_cast<double>(times.reductions[i]),
                  static_cast<double>(sharding.reduce_bytes), traffic.reductions);
  }
}

}  // namespace trainer
