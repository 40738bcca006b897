#include "plan/unit_times.h"

#include <algorithm>

namespace fsdp::plan {

namespace {

double bandwidth_of(const Hardware& hardware) { return hardware.memory_bandwidth * hardware.memory_efficiency; }

}  // namespace

double reduction_seconds(const std::vector<UnitCollective>& reduction, double parameters, const ShardedEngine& engine,
                         const Hardware& hardware) {
  double seconds = engine.is_divided ? engine.reduction_bytes * parameters / bandwidth_of(hardware) : 0;
  for (const UnitCollective& one : reduction) seconds += one.seconds(hardware);
  return seconds;
}

double update_seconds(const UpdateSizes& sizes, const ShardedEngine& engine, const Hardware& hardware) {
  const double bandwidth = bandwidth_of(hardware);
  const double seconds = std::max(engine.update_host + engine.update_host_of_tensor * sizes.tensors,
                                  engine.update_bytes * sizes.parameters / bandwidth);
  if (!sizes.clips) return seconds;
  return seconds +
         std::max(engine.clip_host + engine.clip_host_of_tensor * sizes.tensors, 4 * sizes.parameters / bandwidth) +
         collective_seconds(Collective::AllReduce, 4, sizes.all, hardware);
}

}  // namespace fsdp::plan
