// The cross entropy of a head, with logits that are whole and with linear_cross_entropy: time of forward and backward,
// and the most memory that they take beside the inputs and their gradients. A vocabulary of 4,096 and GPT-2's of
// 50,257, its width of 768, 1,024 targets. Both run once in each iteration, in alternating order.
//
//   whole_ms, chunks_ms   medians of hidden.matmul(weight.t()), cross_entropy and backward, and of linear_cross_entropy
//   ratio                 the median of the iterations' quotients of the two: below 1, linear_cross_entropy is faster
//   product_ms            the median of the product alone, which a forward needs, of which a backward has two of its
//                         own
//   ..._spread            of each of these, how far the measurements lie apart (median.h)
//   whole_mb, chunks_mb   peaks
//
//   build/release/bench/bench_linear_cross_entropy --benchmark_filter=fp32
#include <benchmark/benchmark.h>
#include <c10/core/Allocator.h>
#include <fsdp/fsdp.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "median.h"

namespace {

constexpr int64_t kWidth = 768, kRows = 1024;
constexpr int kIterations = 7;

// Bytes of tensors that are held while it lives, by operators of this thread.
class Peak : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void*, int64_t bytes, size_t, size_t, c10::Device) override {
    held_ += bytes;
    highest = std::max(highest, held_);
  }
  bool memoryProfilingEnabled() const override { return true; }
  int64_t highest = 0;

 private:
  int64_t held_ = 0;
};

struct Head {
  Head(torch::ScalarType dtype, int64_t vocabulary)
      : hidden(torch::randn({kRows, kWidth}).to(dtype).requires_grad_()),
        weight((torch::randn({vocabulary, kWidth}) / 50).to(dtype).requires_grad_()),
        targets(torch::randint(vocabulary, {kRows}, torch::kInt64)) {}

  torch::Tensor whole() const {
    return torch::cross_entropy_loss(hidden.matmul(weight.t()).to(torch::kFloat32), targets);
  }
  torch::Tensor chunks() const { return fsdp::linear_cross_entropy(hidden, weight, targets); }

  torch::Tensor hidden, weight, targets;
};

struct Sample {
  double seconds;
  int64_t bytes;
};

double seconds_of(const std::function<void()>& operation) {
  const auto begin = std::chrono::steady_clock::now();
  operation();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

Sample pass(const Head& head, torch::Tensor (Head::*loss)() const) {
  head.hidden.mutable_grad().reset();
  head.weight.mutable_grad().reset();
  const auto peak = std::make_shared<Peak>();
  const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, peak);
  const double seconds = seconds_of([&] { (head.*loss)().backward(); });
  return {seconds, peak->highest - static_cast<int64_t>(head.hidden.grad().nbytes() + head.weight.grad().nbytes())};
}

void measure(benchmark::State& state, torch::ScalarType dtype) {
  torch::set_num_threads(static_cast<int>(state.range(0)));
  torch::manual_seed(1);
  const Head head(dtype, state.range(1));
  pass(head, &Head::whole), pass(head, &Head::chunks);
  std::vector<double> whole, chunks, ratios, products;
  Sample a{}, b{};
  bool whole_first = true;
  for (auto _ : state) {
    if (whole_first) a = pass(head, &Head::whole);
    b = pass(head, &Head::chunks);
    if (!whole_first) a = pass(head, &Head::whole);
    whole_first = !whole_first;
    whole.push_back(1e3 * a.seconds);
    chunks.push_back(1e3 * b.seconds);
    ratios.push_back(b.seconds / a.seconds);
    const torch::NoGradGuard no_grad;
    products.push_back(1e3 * seconds_of([&] { head.hidden.matmul(head.weight.t()); }));
    state.SetIterationTime(b.seconds);
  }
  add_counters(state, "whole_ms", whole);
  add_counters(state, "chunks_ms", chunks);
  add_counters(state, "ratio", ratios);
  add_counters(state, "product_ms", products);
  state.counters["whole_mb"] = 1e-6 * static_cast<double>(a.bytes);
  state.counters["chunks_mb"] = 1e-6 * static_cast<double>(b.bytes);
}

}  // namespace

int main(int argc, char** argv) {
  for (const auto& [name, dtype] : {std::pair("fp32", torch::kFloat32), std::pair("bf16", torch::kBFloat16)}) {
    benchmark::RegisterBenchmark(name, [dtype = dtype](benchmark::State& state) { measure(state, dtype); })
        ->ArgNames({"threads", "vocabulary"})
        ->ArgsProduct({{1, 2}, {4096, 50257}})
        ->UseManualTime()
        ->Unit(benchmark::kMillisecond)
        ->Iterations(kIterations);
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
}
