#include "planning/measured_passes.h"

#include <ATen/ops/_fused_adamw.h>
#include <c10/util/Exception.h>
#include <fsdp/deferred_init.h>
#include <torch/cuda.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "models/language_model.h"
#include "planning/generator_kept.h"
#include "run/sharding.h"

namespace trainer {

namespace {

constexpr int kRounds = 5;

// The median of kRounds, after two rounds that choose kernels and allocate memory.
template <typename Work>
double median_seconds(const torch::Device& device, const Work& work) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> seconds;
  for (int round = -2; round < kRounds; ++round) {
    const Clock::time_point begin = Clock::now();
    work();
    if (device.is_cuda()) torch::cuda::synchronize(device.index());
    if (round >= 0) seconds.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
  }
  std::ranges::nth_element(seconds, seconds.begin() + kRounds / 2);
  return seconds[kRounds / 2];
}

double pass_seconds(const torch::Device& device, RunOptions options, int64_t layers, bool recomputes) {
  options.model.layers = layers;
  const auto model = models::make_deferred_model(options.model, device);
  fsdp::materialize(*model);
  model->to(compute_dtype_of(options));
  models::Recomputation recomputation = options.recomputation();
  recomputation.blocks = recomputes ? layers : 0;
  model->set_recomputation(recomputation);
  const auto tokens = torch::zeros({options.batch, options.model.context}, torch::dtype(torch::kInt64).device(device));
  return median_seconds(device, [&] {
    model->loss(tokens, tokens).backward();
    model->zero_grad();
  });
}

struct LayerTimes {
  double layer, rest;
};

LayerTimes layer_times(const torch::Device& device, const RunOptions& options, bool recomputes) {
  const double one = pass_seconds(device, options, 1, recomputes), two = pass_seconds(device, options, 2, recomputes);
  const double layer = std::max(0.0, two - one);
  return {.layer = layer, .rest = std::max(0.0, one - layer)};
}

// The time of AdamW stands for all optimizers: memory bounds it.
double update_seconds_per_parameter(const torch::Device& device) {
  constexpr int64_t kNumel = 1 << 24;
  const auto make = [&] { return std::vector<torch::Tensor>{torch::zeros({kNumel}, device)}; };
  auto values = make(), gradients = make(), first = make(), second = make();
  std::vector<torch::Tensor> steps{torch::ones({}, device)};
  const double seconds = median_seconds(device, [&] {
    at::_fused_adamw_(values, gradients, first, second, /*max_exp_avg_sqs=*/{}, steps, /*lr=*/1e-3, /*beta1=*/0.9,
                      /*beta2=*/0.95, /*weight_decay=*/0.1, /*eps=*/1e-8, /*amsgrad=*/false, /*maximize=*/false);
  });
  return seconds / static_cast<double>(kNumel);
}

}  // namespace

std::optional<PassTimes> measured_passes(const torch::Device& device, const RunOptions& options) try {
  const GeneratorKept generator;
  const auto layers = static_cast<double>(options.model.layers);
  const double recomputed = std::min(1.0, static_cast<double>(options.recomputation().blocks) / layers);
  PassTimes times{.update_of_parameter = update_seconds_per_parameter(device)};
  const auto add = [&](double share, bool recomputes) {
    if (share == 0) return;
    const LayerTimes of_kind = layer_times(device, options, recomputes);
    times.layer += share * of_kind.layer;
    times.rest += share * of_kind.rest;
  };
  add(1 - recomputed, false);
  add(recomputed, true);
  return times;
} catch (const c10::OutOfMemoryError&) {
  return std::nullopt;
}

}  // namespace trainer
