// How long a file of a checkpoint takes to be read with its hash checked, against reading it without; both once in each
// iteration, in alternating order, from the page cache, where the hash weighs most.
//
//   plain_gbs  bytes read a second without the hash
//   hashed_gbs the same with it
//   ratio      the median of the iterations' quotients of the times, with the hash over without
//
// The argument is the MiB of the file, in tensors of 16 MiB.
//
//   build/release/bench/bench_checkpoint
#include <benchmark/benchmark.h>

#include <chrono>
#include <filesystem>
#include <utility>
#include <vector>

#include "checkpoint/safetensors.h"
#include "median.h"

namespace {

using namespace fsdp::checkpoint;

template <typename Operation>
double seconds_of(Operation&& operation) {
  const auto begin = std::chrono::steady_clock::now();
  operation();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void read_plain(const SafetensorsFile& file) {
  std::vector<torch::Tensor> tensors;
  for (const auto& entry : file.entries()) tensors.push_back(file.read(entry));
  benchmark::DoNotOptimize(tensors);
}

void read_hashed(const SafetensorsFile& file) {
  std::vector<const SafetensorsFile::Entry*> all;
  for (const auto& entry : file.entries()) all.push_back(&entry);
  auto read = file.read_with_hash(all);
  benchmark::DoNotOptimize(read);
}

void BM_ReadShard(benchmark::State& state) {
  constexpr int64_t kTensorBytes = 16 << 20;
  const std::filesystem::path path = std::filesystem::temp_directory_path() / "fsdp-bench-checkpoint.safetensors";
  std::filesystem::remove(path);
  NamedTensors tensors;
  for (int64_t i = 0; i < (state.range(0) << 20) / kTensorBytes; ++i) {
    tensors.emplace_back("model." + std::to_string(i), torch::randn({kTensorBytes / 4}));
  }
  write_safetensors(path, tensors, {});
  tensors.clear();
  const SafetensorsFile file(path);
  std::vector<double> plain, hashed, ratios;
  for (auto _ : state) {
    const auto measure = [&](bool with_hash) {
      (with_hash ? hashed : plain).push_back(seconds_of([&] { with_hash ? read_hashed(file) : read_plain(file); }));
    };
    const bool hashed_first = ratios.size() % 2 == 0;
    measure(hashed_first);
    measure(!hashed_first);
    ratios.push_back(hashed.back() / plain.back());
    state.SetIterationTime(hashed.back());
  }
  const auto gigabytes = static_cast<double>(file.bytes()) / 1e9;
  state.counters["plain_gbs"] = gigabytes / median(plain);
  state.counters["hashed_gbs"] = gigabytes / median(hashed);
  state.counters["ratio"] = median(ratios);
  std::filesystem::remove(path);
}

BENCHMARK(BM_ReadShard)->Arg(256)->Iterations(15)->UseManualTime()->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
