// Two ways to run a block again in the backward: what each costs, beside a block that keeps what it saves.
//
//   saved_us    activation_checkpoint: the second run gives the graph of the first the tensors that it saved, and ends
//               with the last of them
//   nested_us   a node of its own, whose backward runs the block again and then a backward within the backward
//   ..._ratio   to the plain block, forward and backward
//
// In each iteration all three run one after the other, on one thread; counters are medians over the iterations.
//
//   build/release/bench/bench_recomputation
#include <benchmark/benchmark.h>
#include <fsdp/fsdp.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "median.h"

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int kBlocks = 6, kIterations = 25;

struct Block : torch::nn::Module {
  explicit Block(int64_t width)
      : norm(register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})))),
        up(register_module("up", torch::nn::Linear(width, 4 * width))),
        down(register_module("down", torch::nn::Linear(4 * width, width))) {}
  torch::Tensor forward(const torch::Tensor& input) { return input + down(torch::gelu(up(norm(input)))); }

  torch::nn::LayerNorm norm;
  torch::nn::Linear up, down;
};

struct Nested : torch::autograd::Function<Nested> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& input, Block* block) {
    context->save_for_backward({input});
    context->saved_data["block"] = reinterpret_cast<int64_t>(block);
    return block->forward(input);  // without gradients, as in each such function
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const torch::Tensor input = context->get_saved_variables()[0].detach().requires_grad_();
    auto* block = reinterpret_cast<Block*>(context->saved_data["block"].toInt());
    const torch::AutoGradMode with_gradients(true);
    torch::autograd::backward({block->forward(input)}, {gradients[0]});
    return {input.grad(), torch::Tensor()};
  }
};

using Run = std::function<torch::Tensor(const std::shared_ptr<Block>& block, const torch::Tensor& input)>;

double microseconds_per_block(const std::vector<std::shared_ptr<Block>>& blocks, const torch::Tensor& input, int times,
                              const Run& run) {
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < times; ++i) {
    torch::Tensor output = input;
    for (const auto& block : blocks) output = run(block, output);
    output.sum().backward();
  }
  const std::chrono::duration<double, std::micro> elapsed = std::chrono::steady_clock::now() - begin;
  return elapsed.count() / (times * static_cast<double>(blocks.size()));
}

void recomputation(benchmark::State& state, int64_t width, int64_t rows, int times) {
  at::set_num_threads(1);
  std::vector<std::shared_ptr<Block>> blocks;
  for (int i = 0; i < kBlocks; ++i) blocks.push_back(std::make_shared<Block>(width));
  const torch::Tensor input = torch::randn({rows, width}).requires_grad_();
  const std::vector<std::pair<std::string, Run>> ways = {
      {"plain", [](const auto& block, const torch::Tensor& x) { return block->forward(x); }},
      {"saved",
       [](const auto& block, const torch::Tensor& x) {
         return fsdp::activation_checkpoint([block](const torch::Tensor& again) { return block->forward(again); }, x);
       }},
      {"nested", [](const auto& block, const torch::Tensor& x) { return Nested::apply(x, block.get()); }}};
  std::vector<std::vector<double>> times_us(ways.size()), ratios(ways.size());
  for (auto _ : state) {
    for (size_t i = 0; i < ways.size(); ++i) {
      times_us[i].push_back(microseconds_per_block(blocks, input, times, ways[i].second));
      ratios[i].push_back(times_us[i].back() / times_us[0].back());
    }
    state.SetIterationTime(1e-6 * times_us[1].back());
  }
  for (size_t i = 0; i < ways.size(); ++i) {
    add_counters(state, ways[i].first + "_us", times_us[i]);
    if (i > 0) add_counters(state, ways[i].first + "_ratio", ratios[i]);
  }
}

}  // namespace

int main(int count, char** words) {
  const auto add = [](const char* name, int64_t width, int64_t rows, int times) {
    benchmark::RegisterBenchmark(name, [=](benchmark::State& state) { recomputation(state, width, rows, times); })
        ->UseManualTime()
        ->Iterations(kIterations)
        ->Unit(benchmark::kMicrosecond);
  };
  add("width 16, 8 rows", 16, 8, 200);
  add("width 256, 256 rows", 256, 256, 10);
  add("width 768, 512 rows", 768, 512, 1);
  benchmark::Initialize(&count, words);
  benchmark::RunSpecifiedBenchmarks();
}
