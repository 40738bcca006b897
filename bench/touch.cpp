// The cost of one touch: small operators on a sharded parameter, against the same operators on a plain tensor. In each
// iteration all variants run a hundred times, one after the other; the counters are medians over the iterations.
//
//   plain_ns     the operator on a plain tensor
//   touch_ns     what it takes longer on a sharded parameter
//   dispatch_ns  the part of that which LibTorch takes to go through one more kernel: the operator on a plain tensor
//                that carries the library's dispatch key, so that the kernel finds nothing to do
//
// The last operator has no kernel of its own and pays for boxed arguments as well.
//
//   build/release/bench/bench_touch
#include <benchmark/benchmark.h>
#include <fsdp/fsdp.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "median.h"

namespace {

constexpr int kCalls = 100, kIterations = 1500;
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

// The tensor's values with the key that sharded parameters carry (src/interpose/key.h).
torch::Tensor with_key(const torch::Tensor& tensor) {
  auto view = c10::make_intrusive<c10::TensorImpl>(
      c10::Storage(tensor.storage()), tensor.key_set().add(c10::DispatchKey::DeferredInit), tensor.dtype());
  view->set_sizes_contiguous(tensor.sizes());
  return torch::Tensor(std::move(view)).requires_grad_();
}

struct Weights {
  torch::Tensor plain, keyed, sharded;
};

void touch(benchmark::State& state, const Operator& call, const Weights& weights) {
  torch::NoGradGuard no_gradients;
  std::vector<double> plain_ns, dispatch_ns, touch_ns;
  for (auto _ : state) {
    plain_ns.push_back(nanoseconds_per_call(call, weights.plain));
    touch_ns.push_back(nanoseconds_per_call(call, weights.sharded) - plain_ns.back());
    dispatch_ns.push_back(nanoseconds_per_call(call, weights.keyed) - plain_ns.back());
    state.SetIterationTime(1e-9 * std::max(touch_ns.back(), 0.0) * kCalls);
  }
  state.counters["plain_ns"] = median(plain_ns);
  state.counters["dispatch_ns"] = median(dispatch_ns);
  state.counters["touch_ns"] = median(touch_ns);
}

Weights make_weights(at::IntArrayRef sizes) {
  const torch::Tensor plain = torch::ones(sizes, torch::requires_grad());
  return {plain, with_key(plain.detach().clone()), torch::ones(sizes, torch::requires_grad())};
}

void run(fsdp::World& world) {
  torch::set_num_threads(1);
  const Weights matrix = make_weights({kWidth, kWidth}), vector = make_weights({kWidth});
  auto sharded = fsdp::shard({{"unit", {{"matrix", matrix.sharded}, {"vector", vector.sharded}}, {}}}, world);

  const torch::Tensor input = torch::ones({1, kWidth}), index = torch::zeros({1}, torch::kInt64);
  auto add = [](const std::string& name, const Weights& weights, Operator call) {
    benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) { touch(state, call, weights); })
        ->UseManualTime()
        ->Iterations(kIterations);
  };
  add("mm", matrix, [=](const auto& weight) { return at::mm(input, weight); });
  add("linear", matrix, [=](const auto& weight) { return at::linear(input, weight); });
  add("embedding", matrix, [=](const auto& weight) { return at::embedding(weight, index); });
  add("layer_norm", vector, [=](const auto& weight) { return at::layer_norm(input, {kWidth}, weight); });
  add("add, boxed", vector, [=](const auto& weight) { return at::add(input, weight); });
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();  // the tensors go before the world does
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  return fsdp::launch({.ranks = 1}, run);
}
