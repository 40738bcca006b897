// Measures what share of a load the check of the checkpoint's hash takes. The files lie in the page cache: from a disk
// the share is smaller.
//
// BM_ReadShard: a file read with its hash and without, both once in each iteration, in alternating order.
//   plain_gbs   bytes per second without the hash
//   hashed_gbs  with it
//   ratio       the median of the iterations' quotients of the times, with the hash over without
// BM_Load: load_checkpoint of a model and its AdamW, on one rank.
//   load_gbs    bytes per second
//   hash_share  the time that the hash of as many bytes takes one thread, over the rest of the load's time, which has
//               several
//
// The argument is the MiB of the checkpoint.
//
//   build/release/bench/bench_checkpoint
#include <benchmark/benchmark.h>
#include <fsdp/fsdp.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <utility>
#include <vector>

#include "checkpoint/shard_file.h"
#include "files/content_hash.h"
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

void read_hashed(const ShardFile& file, const std::vector<SafetensorsFile::Entry>& entries) {
  std::vector<torch::Tensor> tensors;
  for (const auto& same : entries) {
    const auto& entry = file.entry(same.name, dtype_name(same.type), same.shape);
    tensors.push_back(torch::empty(entry.shape, entry.type));
    if (!file.read(entry, 0, entry.bytes(), tensors.back().mutable_data_ptr()).empty()) std::abort();
  }
  benchmark::DoNotOptimize(tensors);
}

void BM_ReadShard(benchmark::State& state) {
  constexpr int64_t kTensorBytes = 16 << 20;
  const std::filesystem::path path = std::filesystem::temp_directory_path() / "fsdp-bench-checkpoint.safetensors";
  std::filesystem::remove(path);
  NamedTensors tensors;
  for (int64_t i = 0; i < (state.range(0) << 20) / kTensorBytes; ++i) {
    tensors.emplace_back("model." + std::to_string(i), torch::randn({kTensorBytes / 4}));
  }
  const WrittenFile written = write_safetensors(path, tensors, {}, Hashes::InHeader);
  tensors.clear();
  const SafetensorsFile file(path);
  const ShardFile hashed_file(path, written);
  std::vector<double> plain, hashed, ratios;
  for (auto _ : state) {
    const auto measure = [&](bool with_hash) {
      (with_hash ? hashed : plain).push_back(seconds_of([&] {
        with_hash ? read_hashed(hashed_file, file.entries()) : read_plain(file);
      }));
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

void hash_in_pieces(int64_t bytes) {
  static const std::vector<char> piece(kHashBlockBytes, 'x');
  for (int64_t left = bytes; left > 0; left -= kHashBlockBytes) {
    benchmark::DoNotOptimize(fsdp::files::hash_of(piece.data(), piece.size()));
  }
}

void load(benchmark::State& state, fsdp::World& world) {
  constexpr int64_t kWidth = 1024;
  const int64_t bytes = state.range(0) << 20, layers = bytes / (3 * 4 * kWidth * kWidth);  // with both moments
  torch::nn::Sequential model;
  for (int64_t i = 0; i < layers; ++i) model->push_back(torch::nn::Linear(kWidth, kWidth));
  auto sharded = fsdp::shard(*model, world);
  fsdp::AdamW optimizer(sharded);
  const auto directory = std::filesystem::temp_directory_path() / "fsdp-bench-checkpoint";
  fsdp::save_checkpoint(directory, {.model = &sharded, .optimizer = &optimizer});
  std::vector<double> loads, shares;
  for (auto _ : state) {
    loads.push_back(
        seconds_of([&] { fsdp::load_checkpoint(directory, {.model = &sharded, .optimizer = &optimizer}); }));
    const double hash = seconds_of([&] { hash_in_pieces(bytes); });
    shares.push_back(hash / (loads.back() - hash));
    state.SetIterationTime(loads.back());
  }
  state.counters["load_gbs"] = static_cast<double>(bytes) / 1e9 / median(loads);
  state.counters["hash_share"] = median(shares);
  std::filesystem::remove_all(directory);
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  return fsdp::launch({.ranks = 1}, [](fsdp::World& world) {
    benchmark::RegisterBenchmark("BM_Load", [&](benchmark::State& state) { load(state, world); })
        ->Arg(768)
        ->Iterations(15)
        ->UseManualTime()
        ->Unit(benchmark::kMillisecond);
    benchmark::RunSpecifiedBenchmarks();
  });
}
