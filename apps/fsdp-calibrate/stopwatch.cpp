#include "fsdp-calibrate/stopwatch.h"

#include <torch/types.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace calibration {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

}  // namespace

size_t Stopwatch::add(std::function<void()> work) {
  works_.push_back(std::move(work));
  return works_.size() - 1;
}

// The median of calls, or of some calls in a row where one is too short for the clock. All ranks make equally many:
// works may be collectives.
double Stopwatch::round_of(const std::function<void()>& work) {
  constexpr double kShort = 20e-6;  // seconds
  constexpr double kLeastCalls = 3, kMostCalls = 200;
  work();
  world_.barrier();
  Clock::time_point begin = Clock::now();
  work();
  const double first = std::max(mean_of_ranks(world_, seconds_since(begin)), 1e-8);
  const int in_a_row = static_cast<int>(std::clamp(kShort / first, 1.0, 100.0));
  const int count = static_cast<int>(std::clamp(effort_.window / first / in_a_row, kLeastCalls, kMostCalls));
  std::vector<double> calls;
  for (int call = 0; call < count; ++call) {
    begin = Clock::now();
    for (int i = 0; i < in_a_row; ++i) work();
    calls.push_back(seconds_since(begin) / in_a_row);
  }
  world_.barrier();
  return median(std::move(calls));
}

void Stopwatch::run() {
  std::vector<std::vector<double>> found(works_.size());
  for (int round = 0; round < effort_.rounds; ++round) {
    for (size_t i = 0; i < works_.size(); ++i) found[i].push_back(round_of(works_[i]));
  }
  seconds_.clear();
  for (const std::vector<double>& rounds_of_work : found)
    seconds_.push_back(mean_of_ranks(world_, std::ranges::min(rounds_of_work)));
}

double mean_of_ranks(fsdp::World& world, double value) {
  torch::Tensor sum = torch::tensor({value}, torch::kFloat64);
  world.all_reduce_(sum, fsdp::ReduceOp::Mean);
  return sum.item<double>();
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace calibration
