// Cost of sharding itself: a training step of a GPT on one rank, sharded and with fsdp::AdamW, against the same
// model in plain LibTorch with the same fused AdamW kernel. Both take one step in each iteration, in alternating order,
// so that whatever else the machine does meets both; `ratio` is the median of the iterations' ratios. With one rank
// there is no communication.
//
//   build/release/bench/bench_step
#include <benchmark/benchmark.h>
#include <fsdp/fsdp.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <vector>

#include "median.h"
#include "models/gpt2.h"

namespace {

constexpr int64_t kBatch = 4, kLength = 128;
constexpr int kWarmUpSteps = 3, kIterations = 30;
constexpr int64_t kVocabulary = 256;

std::shared_ptr<models::LanguageModel> same_model(int64_t width) {
  torch::manual_seed(1);
  return models::make_model({.vocabulary = kVocabulary, .context = kLength, .width = width, .layers = 4, .heads = 4});
}

struct Batch {
  torch::Tensor tokens = torch::randint(kVocabulary, {kBatch, kLength}, torch::kInt64);
  torch::Tensor targets = torch::randint(kVocabulary, {kBatch, kLength}, torch::kInt64);
};

class Sharded {
 public:
  Sharded(fsdp::World& world, int64_t width)
      : model_(same_model(width)),
        sharded_(fsdp::shard(*model_, world, {.units = fsdp::units_of<models::Gpt2BlockImpl>()})),
        optimizer_(sharded_) {}

  double step(const Batch& batch) {
    auto loss = model_->loss(batch.tokens, batch.targets);
    loss.backward();
    optimizer_.step();
    optimizer_.zero_grad();
    return loss.item<double>();
  }

 private:
  std::shared_ptr<models::LanguageModel> model_;
  fsdp::ShardedModel sharded_;
  fsdp::AdamW optimizer_;
};

class Plain {
 public:
  explicit Plain(int64_t width) : model_(same_model(width)), parameters_(model_->parameters()) {
    for (const torch::Tensor& parameter : parameters_) {
      first_moments_.push_back(torch::zeros_like(parameter));
      second_moments_.push_back(torch::zeros_like(parameter));
      steps_.push_back(torch::zeros({}));
    }
  }

  double step(const Batch& batch) {
    auto loss = model_->loss(batch.tokens, batch.targets);
    loss.backward();
    update();
    for (torch::Tensor& parameter : parameters_) parameter.mutable_grad().reset();
    return loss.item<double>();
  }

 private:
  void update() {
    torch::NoGradGuard no_gradients;
    std::vector<torch::Tensor> gradients;
    for (const torch::Tensor& parameter : parameters_) gradients.push_back(parameter.grad());
    at::_foreach_add_(steps_, 1);
    const fsdp::AdamWOptions options;
    at::_fused_adamw_(parameters_, gradients, first_moments_, second_moments_, {}, steps_, options.lr, options.beta1,
                      options.beta2, options.weight_decay, options.eps, /*amsgrad=*/false, /*maximize=*/false);
  }

  std::shared_ptr<models::LanguageModel> model_;
  std::vector<torch::Tensor> parameters_;
  std::vector<torch::Tensor> first_moments_, second_moments_, steps_;
};

struct Sample {
  double seconds;
  double loss;
};

template <typename Training>
Sample measure(Training& training, const Batch& batch) {
  const auto begin = std::chrono::steady_clock::now();
  const double loss = training.step(batch);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  return {elapsed.count(), loss};
}

// The time of an iteration is the sharded step's.
void step(benchmark::State& state, fsdp::World& world) {
  Sharded sharded(world, state.range(0));
  Plain plain(state.range(0));
  const Batch batch;
  for (int i = 0; i < kWarmUpSteps; ++i) {
    sharded.step(batch);
    plain.step(batch);
  }

  std::vector<double> sharded_seconds, plain_seconds, ratios;
  double loss_difference = 0;
  bool sharded_first = true;
  for (auto _ : state) {
    Sample a{}, b{};
    if (sharded_first) a = measure(sharded, batch);
    b = measure(plain, batch);
    if (!sharded_first) a = measure(sharded, batch);
    sharded_first = !sharded_first;

    state.SetIterationTime(a.seconds);
    sharded_seconds.push_back(a.seconds);
    plain_seconds.push_back(b.seconds);
    ratios.push_back(a.seconds / b.seconds);
    loss_difference = std::max(loss_difference, std::abs(a.loss - b.loss));
  }
  state.counters["sharded_ms"] = 1e3 * median(sharded_seconds);
  state.counters["plain_ms"] = 1e3 * median(plain_seconds);
  state.counters["ratio"] = median(ratios);
  state.counters["loss_difference"] = loss_difference;
}

void run(fsdp::World& world) {
  torch::set_num_threads(1);
  benchmark::RegisterBenchmark("training step", [&world](benchmark::State& state) { step(state, world); })
      ->ArgName("width")
      ->Arg(128)
      ->Arg(256)
      ->Arg(512)
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
