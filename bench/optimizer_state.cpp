// The time of a step of fsdp::AdamW per parameter, with moments in fp32, in bf16 and in blocks of 8 bits. One rank
// steps on matrices that are too large for the caches. In each iteration all three take one step, in turn.
//
//   fp32_ns, bf16_ns, 8bit_ns         medians of the time of a step per parameter
//   bf16_ratio, 8bit_ratio            medians of the iterations' quotients by fp32
//   ..._spread                        of each of these, how far the measurements lie apart (median.h)
//   fp32_bytes, bf16_bytes, 8bit_bytes  of moments per parameter
//
//   build/release/bench/bench_optimizer_state
#include <benchmark/benchmark.h>
#include <fsdp/fsdp.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "median.h"

namespace {

constexpr int64_t kMatrices = 4, kWidth = 2048;  // 16.8 million parameters
constexpr int kWarmUpSteps = 2, kIterations = 15;

struct Matrices : torch::nn::Module {
  Matrices() {
    for (int64_t i = 0; i < kMatrices; ++i) {
      matrices.push_back(register_parameter(std::to_string(i), torch::randn({kWidth, kWidth})));
    }
  }
  std::vector<torch::Tensor> matrices;
};

class Stepped {
 public:
  Stepped(fsdp::World& world, fsdp::StateDtype dtype)
      : model_(std::make_shared<Matrices>()),
        sharded_(fsdp::shard(*model_, world)),
        optimizer_(sharded_, {.state_dtype = dtype}) {}

  // Seconds of a step on gradients of all sizes.
  double step() {
    for (const torch::Tensor& matrix : model_->matrices) (matrix * torch::randn({1, kWidth}).pow(3)).sum().backward();
    const auto begin = std::chrono::steady_clock::now();
    optimizer_.step();
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    optimizer_.zero_grad();
    return elapsed.count();
  }

  double bytes_per_parameter() const {
    return static_cast<double>(sharded_.memory().optimizer_bytes) / static_cast<double>(kMatrices * kWidth * kWidth);
  }

 private:
  std::shared_ptr<Matrices> model_;
  fsdp::ShardedModel sharded_;
  fsdp::AdamW optimizer_;
};

void measure(benchmark::State& state, fsdp::World& world) {
  torch::set_num_threads(static_cast<int>(state.range(0)));
  constexpr std::array kNames{"fp32", "bf16", "8bit"};
  std::vector<std::unique_ptr<Stepped>> all;
  for (const auto dtype : {fsdp::StateDtype::Float32, fsdp::StateDtype::BFloat16, fsdp::StateDtype::Block8}) {
    all.push_back(std::make_unique<Stepped>(world, dtype));
    for (int i = 0; i < kWarmUpSteps; ++i) all.back()->step();
  }
  std::array<std::vector<double>, kNames.size()> seconds, ratios;
  for (auto _ : state) {
    for (size_t i = 0; i < all.size(); ++i) seconds[i].push_back(all[i]->step());
    for (size_t i = 0; i < all.size(); ++i) ratios[i].push_back(seconds[i].back() / seconds[0].back());
    state.SetIterationTime(seconds[2].back());
  }
  for (size_t i = 0; i < all.size(); ++i) {
    const std::string name = kNames[i];
    add_counters(state, name + "_ns", seconds[i], 1e9 / static_cast<double>(kMatrices * kWidth * kWidth));
    state.counters[name + "_bytes"] = all[i]->bytes_per_parameter();
    if (i > 0) add_counters(state, name + "_ratio", ratios[i]);
  }
}

void run(fsdp::World& world) {
  benchmark::RegisterBenchmark("step", [&world](benchmark::State& state) { measure(state, world); })
      ->ArgName("threads")
      ->Arg(1)
      ->Arg(2)
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond)
      ->Iterations(kIterations);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  return fsdp::launch({.ranks = 1}, run);
}
