// How the library's own cost grows with the number of units and of parameters: forward and backward over 10 to 10,000
// small parameters, as one unit or as a unit each, sharded and plain, on one rank. Each iteration runs both, so that
// whatever else the machine does meets both; the counters are medians over the iterations.
//
//   plain_us  forward and backward on plain tensors, microseconds per parameter
//   added_us  the time that sharding adds, microseconds per parameter: the cost of a touch and of a gradient, flat
//   where
//             neither depends on how many there are
//
//   build/release/bench/bench_growth
#include <benchmark/benchmark.h>
#include <fsdp/fsdp.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "median.h"

namespace {

constexpr int64_t kNumel = 8;         // of a parameter
constexpr int kWarmUpSteps = 2;       // the first records the plan
constexpr int64_t kTouches = 40'000;  // of all iterations together, or three iterations if that is more

std::vector<torch::Tensor> make_parameters(int64_t count) {
  std::vector<torch::Tensor> parameters;
  for (int64_t i = 0; i < count; ++i) parameters.push_back(torch::ones({kNumel}, torch::requires_grad()));
  return parameters;
}

double seconds_of_pass(const std::vector<torch::Tensor>& parameters) {
  const auto begin = std::chrono::steady_clock::now();
  torch::Tensor value = torch::ones({kNumel});
  for (const torch::Tensor& parameter : parameters) value = value * parameter;
  value.sum().backward();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

std::vector<fsdp::NamedUnit> units_of(const std::vector<torch::Tensor>& parameters, bool one_each) {
  std::vector<fsdp::NamedUnit> units;
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (one_each || units.empty()) units.push_back({"unit" + std::to_string(i), {}, {}});
    units.back().parameters.emplace_back("parameter" + std::to_string(i), parameters[i]);
  }
  return units;
}

void growth(benchmark::State& state, fsdp::World& world, bool one_each) {
  const int64_t count = state.range(0);
  const std::vector<torch::Tensor> plain = make_parameters(count), given = make_parameters(count);
  auto sharded = fsdp::shard(units_of(given, one_each), world);
  const auto pass = [&] {
    const double seconds = seconds_of_pass(given);
    sharded.zero_grad();
    return seconds;
  };
  const auto plain_pass = [&] {
    const double seconds = seconds_of_pass(plain);
    for (const torch::Tensor& parameter : plain) parameter.mutable_grad() = torch::Tensor();
    return seconds;
  };
  for (int step = 0; step < kWarmUpSteps; ++step) pass(), plain_pass();
  std::vector<double> plain_us, added_us;
  for (auto _ : state) {
    const double seconds = pass();
    plain_us.push_back(1e6 * plain_pass() / static_cast<double>(count));
    added_us.push_back(1e6 * seconds / static_cast<double>(count) - plain_us.back());
    state.SetIterationTime(seconds);
  }
  state.counters["plain_us"] = median(plain_us);
  state.counters["added_us"] = median(added_us);
}

void run(fsdp::World& world) {
  torch::set_num_threads(1);
  for (const bool one_each : {false, true}) {
    for (const int64_t count : {10, 100, 1'000, 10'000}) {
      const std::string name = one_each ? "units of one parameter" : "parameters of one unit";
      benchmark::RegisterBenchmark(name.c_str(),
                                   [&world, one_each](benchmark::State& state) { growth(state, world, one_each); })
          ->Arg(count)
          ->UseManualTime()
          ->Iterations(std::max<int64_t>(3, kTouches / count));
    }
  }
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  return fsdp::launch({.ranks = 1}, run);
}
