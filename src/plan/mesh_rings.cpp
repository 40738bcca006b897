#include "plan/mesh_rings.h"

#include <algorithm>
#include <set>

namespace fsdp::plan {

namespace {

// Every `stride`-th of them, so many.
Ring ring_among(const std::vector<int64_t>& hosts, int64_t stride, int64_t ranks) {
  std::set<int64_t> distinct;
  for (int64_t i = 0; i < ranks; ++i) distinct.insert(hosts[static_cast<size_t>(i * stride)]);
  return {ranks, static_cast<int64_t>(distinct.size())};
}

Ring whole_ring(const std::vector<int64_t>& hosts) { return ring_among(hosts, 1, std::ssize(hosts)); }

}  // namespace

UnitRings data_rings(const MeshPlaces& places, int64_t pipeline_rank, int64_t group) {
  const std::vector<int64_t> hosts = places.hosts_along(&MeshCoordinates::data, {.pipeline = pipeline_rank});
  return {.group = ring_among(hosts, 1, group), .replicas = ring_among(hosts, group, std::ssize(hosts) / group)};
}

Ring tensor_ring(const MeshPlaces& places) { return whole_ring(places.hosts_along(&MeshCoordinates::tensor, {})); }

Ring pipeline_ring(const MeshPlaces& places) { return whole_ring(places.hosts_along(&MeshCoordinates::pipeline, {})); }

// Ranks with several parts add up each of them, and pass the sum on once.
double exchange_seconds(const Exchanges& exchanges, const DividedTensors& tensors, const Ring& ring,
                        const Hardware& hardware) {
  const auto seconds = [&](Collective kind) { return collective_seconds(kind, tensors.bytes, ring, hardware); };
  const auto parts = static_cast<double>(tensors.parts);
  const double slice = parts * seconds(Collective::ReduceScatter), whole = seconds(Collective::AllGather);
  const double sum = tensors.parts == 1 ? seconds(Collective::AllReduce) : slice + whole;
  return exchanges.sums * sum + exchanges.slices * slice + exchanges.wholes * whole;
}

double message_seconds(double bytes, bool is_within_host, const Hardware& hardware) {
  if (is_within_host) return hardware.local_latency + bytes / hardware.local_bandwidth;
  return hardware.local_latency + hardware.host_latency +
         bytes / (hardware.network_bandwidth * hardware.network_efficiency);
}

std::vector<double> stage_message_seconds(const Mesh& mesh, const MeshPlaces& places, double bytes,
                                          const Hardware& hardware) {
  std::vector<double> seconds;
  for (int stage = 0; stage + 1 < mesh.stages(); ++stage) {
    const int64_t from = mesh.schedule.rank_of(stage), to = mesh.schedule.rank_of(stage + 1);
    const bool is_within = places.host_of({.pipeline = from}) == places.host_of({.pipeline = to});
    seconds.push_back(from == to ? 0 : message_seconds(bytes, is_within, hardware));
  }
  return seconds;
}

}  // namespace fsdp::plan
