// How fast a reduction adds up the ranks' gradients of one slice, against a plain streaming loop over as many bytes,
// `sum[i] = a[i] + b[i]` in fp32. Both run once in each iteration, in alternating order, on one thread.
//
//   plain_gbs  bytes read and written per second by the plain loop
//   sum_gbs    the same by the reduction
//   ratio      the median of the iterations' quotients of the two
//
// The arguments are the ranks whose gradients are added, whether the sum holds something already (it is then read as
// well), and the MiB of the sum.
//
//   build/release/bench/bench_ordered_sum
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>
#include <vector>

#include "collectives/ordered_sum.h"
#include "median.h"

namespace {

using namespace fsdp::collectives;

constexpr int64_t kLeastIterations = 9, kMostIterations = 200;

// Its own function, so that it knows as little of its arguments as the library's code does.
__attribute__((noinline)) void plain_sum(float* __restrict sum, const float* a, const float* b, int64_t numel) {
  for (int64_t i = 0; i < numel; ++i) sum[i] = a[i] + b[i];
}

template <typename Operation>
double seconds_of(Operation&& operation) {
  const auto begin = std::chrono::steady_clock::now();
  operation();
  benchmark::ClobberMemory();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Whose bits are ones: 1.0 or near it in every type.
std::vector<uint8_t> make_values(int64_t numel, ElementType type) {
  const std::vector<uint8_t> one = type == ElementType::Float32    ? std::vector<uint8_t>{0, 0, 0x80, 0x3f}
                                   : type == ElementType::BFloat16 ? std::vector<uint8_t>{0x80, 0x3f}
                                                                   : std::vector<uint8_t>{0x00, 0x3c};
  std::vector<uint8_t> values;
  values.reserve(numel * one.size());
  for (int64_t i = 0; i < numel; ++i) values.insert(values.end(), one.begin(), one.end());
  return values;
}

void measure(benchmark::State& state, ElementType type) {
  const int64_t ranks = state.range(0), numel = (state.range(2) << 20) / 4;
  const bool held = state.range(1) != 0;
  const std::vector<uint8_t> present{1};
  std::vector<std::vector<uint8_t>> gradients;
  std::vector<Addend> addends;
  int64_t bytes = numel * 4 * (held ? 2 : 1);
  for (int64_t rank = 0; rank < ranks; ++rank) {
    gradients.push_back(make_values(numel, type));
    addends.push_back({gradients.back().data(), present});
    bytes += static_cast<int64_t>(gradients.back().size());
  }
  const std::vector<fsdp::layout::Range> segments{{0, numel}};
  std::vector<float> sum(numel, 1), a(bytes / 12, 1), b = a, plain = a;

  std::vector<double> plain_seconds, sum_seconds, ratios;
  const auto run_plain = [&] { plain_sum(plain.data(), a.data(), b.data(), static_cast<int64_t>(a.size())); };
  const auto run_sum = [&] {
    std::vector<uint8_t> flags{held};
    add_in_order(sum.data(), flags, segments, addends, type);
  };
  bool plain_first = true;
  for (auto _ : state) {
    if (plain_first) plain_seconds.push_back(seconds_of(run_plain));
    sum_seconds.push_back(seconds_of(run_sum));
    if (!plain_first) plain_seconds.push_back(seconds_of(run_plain));
    plain_first = !plain_first;
    state.SetIterationTime(sum_seconds.back());
    ratios.push_back(plain_seconds.back() / sum_seconds.back());
  }
  state.counters["plain_gbs"] = 1e-9 * static_cast<double>(bytes) / median(plain_seconds);
  state.counters["sum_gbs"] = 1e-9 * static_cast<double>(bytes) / median(sum_seconds);
  state.counters["ratio"] = median(ratios);
}

}  // namespace

int main(int argc, char** argv) {
  for (const auto& [name, type] : {std::pair("fp32", ElementType::Float32), std::pair("bf16", ElementType::BFloat16),
                                   std::pair("fp16", ElementType::Float16)}) {
    for (int64_t mebibytes : {1, 16, 256}) {
      const auto iterations = std::clamp<int64_t>(8192 / mebibytes, kLeastIterations, kMostIterations);
      benchmark::RegisterBenchmark(name, [type = type](benchmark::State& state) { measure(state, type); })
          ->ArgNames({"ranks", "held", "MiB"})
          ->ArgsProduct({{2, 4}, {0, 1}, {mebibytes}})
          ->Iterations(iterations)
          ->UseManualTime()
          ->Unit(benchmark::kMillisecond);
    }
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
}
