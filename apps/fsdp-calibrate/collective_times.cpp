#include "fsdp-calibrate/collective_times.h"

#include <torch/types.h>

namespace calibration {

namespace {

struct Measured {
  double bytes;
  size_t all_gather, reduce_scatter, all_reduce;
};

}  // namespace

void measure_collectives(fsdp::World& world, const Effort& effort, fsdp::plan::Hardware& hardware) {
  const int64_t ranks = world.size();
  Stopwatch stopwatch(world, effort);
  torch::Tensor one = torch::ones({1});
  const size_t message = stopwatch.add([&] { world.all_reduce_(one, fsdp::ReduceOp::Max); });
  std::vector<Measured> sizes;
  for (const int64_t bytes : {int64_t{1} << 12, int64_t{1} << 16, int64_t{1} << 20, int64_t{1} << 23}) {
    const int64_t shard = std::max<int64_t>(1, bytes / 4 / ranks);
    const torch::Tensor own = torch::zeros({shard}), all = torch::zeros({shard * ranks});
    sizes.push_back({.bytes = static_cast<double>(4 * shard * ranks),
                     .all_gather = stopwatch.add([&world, own] { world.all_gather(own); }),
                     .reduce_scatter = stopwatch.add([&world, all] { world.reduce_scatter(all); }),
                     .all_reduce = stopwatch.add([&world, all] {
                       torch::Tensor sum = all;
                       world.all_reduce_(sum);
                     })});
  }
  stopwatch.run();
  for (const Measured& of : sizes) {
    hardware.all_gathers[ranks][of.bytes] = stopwatch.seconds(of.all_gather);
    hardware.reduce_scatters[ranks][of.bytes] = stopwatch.seconds(of.reduce_scatter);
    hardware.all_reduces[ranks][of.bytes] = stopwatch.seconds(of.all_reduce);
  }
  hardware.local_latency = stopwatch.seconds(message);
  const Measured& largest = sizes.back();
  hardware.local_bandwidth = largest.bytes * static_cast<double>(ranks - 1) / static_cast<double>(ranks) /
                             stopwatch.seconds(largest.all_gather);
}

}  // namespace calibration
