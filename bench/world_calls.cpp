// The time of a World's calls, and of the same operations of its group, which compare nothing:
// bench_world_calls [backend [ranks]]
//
// Rank 0 prints a line for each operation and size: the median of the repetitions, in microseconds.
#include <fsdp/fsdp.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "collectives/group.h"
#include "median.h"
#include "world/state.h"

namespace {

constexpr int kWarmUp = 20;

int repetitions_for(int64_t bytes) { return bytes > 64 << 10 ? 40 : 1000; }

void measure(fsdp::World& world, const std::string& name, int64_t bytes, const std::function<void()>& call) {
  std::vector<double> microseconds;
  for (int i = 0; i < kWarmUp + repetitions_for(bytes); ++i) {
    const auto begin = std::chrono::steady_clock::now();
    call();
    const std::chrono::duration<double, std::micro> elapsed = std::chrono::steady_clock::now() - begin;
    if (i >= kWarmUp) microseconds.push_back(elapsed.count());
  }
  world.barrier();
  if (world.rank() > 0) return;
  std::printf("%-20s %8lld %10.2f\n", name.c_str(), static_cast<long long>(bytes), median(microseconds));
  std::fflush(stdout);
}

void measure_all(fsdp::World& world) {
  const torch::NoGradGuard no_grad;
  fsdp::collectives::Group& group = world.state()->group();
  measure(world, "world.barrier", 0, [&] { world.barrier(); });
  for (const int64_t bytes : {8, 512, 4096, 65536, 1 << 20, 16 << 20}) {
    torch::Tensor values = torch::zeros({bytes / 4});
    measure(world, "world.all_reduce_", bytes, [&] { world.all_reduce_(values); });
    measure(world, "world.broadcast_", bytes, [&] { world.broadcast_(values, 0); });
    measure(world, "world.all_gather", bytes, [&] { world.all_gather(values); });
    measure(world, "group.all_reduce_", bytes, [&] { group.all_reduce_(values); });
    measure(world, "group.broadcast_", bytes, [&] { group.broadcast_(values, 0); });
    measure(world, "group.all_gather", bytes, [&] { group.all_gather(values); });
  }
}

}  // namespace

int main(int count, char** words) {
  fsdp::LaunchOptions options{.backend = count > 1 ? words[1] : "auto"};
  options.ranks = count > 2 ? std::atoi(words[2]) : 2;
  return fsdp::launch(options, measure_all);
}
