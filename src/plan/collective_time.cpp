#include "plan/collective_time.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace fsdp::plan {

namespace {

// Below the table most of the time is latency; above it, bandwidth.
constexpr double kSmallestShare = 0.7;

double in_table(const std::map<double, double>& seconds_of, double bytes) {
  const auto above = seconds_of.lower_bound(bytes);
  if (above == seconds_of.begin())
    return above->second * (kSmallestShare + (1 - kSmallestShare) * bytes / above->first);
  const auto below = std::prev(above);
  if (above == seconds_of.end()) return below->second * bytes / below->first;
  const double share = (bytes - below->first) / (above->first - below->first);
  return below->second + share * (above->second - below->second);
}

std::optional<double> measured(Collective kind, double bytes, const Ring& ring, const Hardware& hardware) {
  const MeasuredTimes& tables = kind == Collective::AllReduce   ? hardware.all_reduces
                                : kind == Collective::AllGather ? hardware.all_gathers
                                                                : hardware.reduce_scatters;
  const auto table = tables.find(ring.ranks);
  if (ring.hosts > 1 || table == tables.end()) return std::nullopt;
  return in_table(table->second, bytes);
}

}  // namespace

double collective_seconds(Collective kind, double bytes, const Ring& ring, const Hardware& hardware) {
  if (ring.ranks <= 1) return 0;
  if (const auto seconds = measured(kind, bytes, ring, hardware)) return *seconds;
  const auto ranks = static_cast<double>(ring.ranks), hosts = static_cast<double>(ring.hosts);
  double bandwidth = hardware.local_bandwidth;
  double latency = hardware.local_rank_latency * (ranks - 1);
  if (ring.hosts > 1) {
    bandwidth = std::min(bandwidth, hardware.network_bandwidth * hardware.network_efficiency * ranks / hosts);
    latency = hardware.rank_latency * (ranks - 1) + hardware.host_latency * hosts;
    // A tree over the hosts, where that is shorter.
    const double tree = hardware.rank_latency * (ranks / hosts - 1) +
                        (hardware.rank_latency + hardware.host_latency) * std::log2(hosts);
    if (kind == Collective::AllReduce) latency = std::min(latency, tree);
  }
  const double turns = kind == Collective::AllReduce ? 2 : 1;
  return hardware.local_latency + turns * (latency + bytes * (ranks - 1) / ranks / bandwidth);
}

}  // namespace fsdp::plan
