// The cost of one touch: small operators on a sharded parameter, against the same operators on a plain tensor. In each
// iteration both run a few thousand times, one after the other; `touch_ns` is the median of the iterations'
// differences: what the library adds to one operator that reads parameters, LibTorch's way through one more kernel
// included. The first four are those that models call most; any other operator pays for boxed arguments as well.
//
//   build/release/bench/bench_touch
#include <benchmark/benchmark.h>
#include <fsdp/fsdp.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "median.h"

namespace {

constexpr int kCalls = 2000, kIterations = 60;
constexpr int64_t kWidth = 8;

using Operator = std::function<torch::Tensor(const torch::Tensor& weight)>;

double nanoseconds_per_call(const Operator& call, const torch::Tensor& weight) {
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < kCalls; ++i) {
    torch::Tensor output = call(weight);
    benchmark::DoNotOptimize(output);
  }
  const std::chrono::duration<double, std::nano> elapsed = std::chrono::steady_clock::now() - begin;
  return elapsed.count() / kCalls;
}

void touch(benchmark::State& state, const Operator& call, const torch::Tensor& plain, const torch::Tensor& sharded) {
  torch::NoGradGuard no_gradients;
  std::vector<double> plain_ns, sharded_ns, touch_ns;
  for (auto _ : state) {
    plain_ns.push_back(nanoseconds_per_call(call, plain));
    sharded_ns.push_back(nanoseconds_per_call(call, sharded));
    touch_ns.push_back(sharded_ns.back() - plain_ns.back());
    state.SetIterationTime(1e-9 * touch_ns.back() * kCalls);
  }
  state.counters["plain_ns"] = median(plain_ns);
  state.counters["sharded_ns"] = median(sharded_ns);
  state.counters["touch_ns"] = median(touch_ns);
}

struct Weights {
  torch::Tensor matrix = torch::ones({kWidth, kWidth}, torch::requires_grad());
  torch::Tensor vector = torch::ones({kWidth}, torch::requires_grad());
};

void run(fsdp::World& world) {
  torch::set_num_threads(1);
  const Weights plain, weights;
  auto sharded = fsdp::shard({{"unit", {{"matrix", weights.matrix}, {"vector", weights.vector}}, {}}}, world);

  const torch::Tensor input = torch::ones({1, kWidth}), index = torch::zeros({1}, torch::kInt64);
  auto add = [](const std::string& name, const torch::Tensor& plain, const torch::Tensor& weight, Operator call) {
    benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) { touch(state, call, plain, weight); })
        ->UseManualTime()
        ->Iterations(kIterations);
  };
  add("mm", plain.matrix, weights.matrix, [=](const auto& weight) { return at::mm(input, weight); });
  add("linear", plain.matrix, weights.matrix, [=](const auto& weight) { return at::linear(input, weight); });
  add("embedding", plain.matrix, weights.matrix, [=](const auto& weight) { return at::embedding(weight, index); });
  add("layer_norm", plain.vector, weights.vector,
      [=](const auto& weight) { return at::layer_norm(input, {kWidth}, weight); });
  add("add, boxed", plain.vector, weights.vector, [=](const auto& weight) { return at::add(input, weight); });
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();  // the tensors go before the world does
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  return fsdp::launch({.ranks = 1}, run);
}
