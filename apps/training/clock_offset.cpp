#include "training/clock_offset.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <system_error>

namespace trainer {

namespace {

constexpr int kRoundTrips = 16;

torch::Tensor numbers_on(const fsdp::World& world, const std::vector<int64_t>& numbers) {
  return torch::tensor(numbers, torch::kInt64).to(world.device());
}

std::vector<int64_t> gathered(fsdp::World& world, int64_t number) {
  std::vector<int64_t> numbers;
  for (const torch::Tensor& one : world.all_gather(numbers_on(world, {number}))) numbers.push_back(one.item<int64_t>());
  return numbers;
}

// The lowest rank with that rank's clock.
size_t first_with_clock_of(size_t rank, const std::vector<int64_t>& clocks) {
  return static_cast<size_t>(std::ranges::find(clocks, clocks[rank]) - clocks.begin());
}

// Rank 0 answers with its time.
void answer(fsdp::World& world, int peer, const HostClock& clock) {
  for (int i = 0; i < kRoundTrips; ++i) {
    torch::Tensor question = numbers_on(world, {0});
    world.receive_(question, peer);
    world.send(numbers_on(world, {clock.now()}), peer);
  }
}

ClockOffset measure(fsdp::World& world, const HostClock& clock) {
  ClockOffset best{.nanoseconds = 0, .error = std::numeric_limits<int64_t>::max()};
  for (int i = 0; i < kRoundTrips; ++i) {
    torch::Tensor time = numbers_on(world, {0});
    const int64_t begin = clock.now();
    world.send(numbers_on(world, {i}), 0);
    world.receive_(time, 0);
    const auto of_rank0 = time.item<int64_t>();
    const int64_t trip = clock.now() - begin, error = (trip + 1) / 2;
    if (error < best.error) best = {.nanoseconds = of_rank0 - (begin + trip / 2), .error = error};
  }
  return best;
}

}  // namespace

HostClock host_clock() {
  std::string name;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> name;
  std::error_code ignored;
  name += " " + std::filesystem::read_symlink("/proc/self/ns/time", ignored).string();
  return {.name = name, .now = [] {
            const auto time = std::chrono::steady_clock::now().time_since_epoch();
            return std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
          }};
}

std::vector<ClockOffset> clock_offsets(fsdp::World& world, const HostClock& clock) {
  const auto rank = static_cast<size_t>(world.rank());
  const std::vector<int64_t> clocks = gathered(world, static_cast<int64_t>(std::hash<std::string>()(clock.name)));
  ClockOffset own;
  if (rank == 0) {
    for (size_t peer = 1; peer < clocks.size(); ++peer) {
      if (first_with_clock_of(peer, clocks) == peer) answer(world, static_cast<int>(peer), clock);
    }
  } else if (first_with_clock_of(rank, clocks) == rank) {
    own = measure(world, clock);
  }
  const std::vector<int64_t> offsets = gathered(world, own.nanoseconds), errors = gathered(world, own.error);
  std::vector<ClockOffset> all;
  for (size_t one = 0; one < clocks.size(); ++one) {
    const size_t first = first_with_clock_of(one, clocks);
    all.push_back({.nanoseconds = offsets[first], .error = errors[first]});
  }
  return all;
}

}  // namespace trainer
