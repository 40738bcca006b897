#include "planning/peak_flops.h"

#include <torch/cuda.h>

#include <algorithm>
#include <chrono>
#include <vector>

namespace trainer {

namespace {

using Clock = std::chrono::steady_clock;

// A GPU takes work faster than it does it, and its products are short: several follow each other without a pause.
struct Measurement {
  std::vector<int64_t> widths;
  int in_a_row;
};

Measurement measurement_on(const torch::Device& device) {
  if (device.is_cuda()) return {.widths = {1024, 2048, 4096}, .in_a_row = 16};
  return {.widths = {128, 256, 512, 1024}, .in_a_row = 1};
}

void wait_for(const torch::Device& device) {
  if (device.is_cuda()) torch::cuda::synchronize(device.index());
}

// The shortest time of a product of two matrices of this width, in seconds.
double seconds_of_product(int64_t width, int in_a_row, const torch::TensorOptions& options) {
  constexpr int kTries = 3;  // the first makes what products need
  const torch::Tensor left = torch::ones({width, width}, options), right = torch::ones({width, width}, options);
  double shortest = 0;
  for (int attempt = 0; attempt < kTries; ++attempt) {
    wait_for(options.device());
    const Clock::time_point begin = Clock::now();
    for (int product = 0; product < in_a_row; ++product) torch::mm(left, right);
    wait_for(options.device());
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count() / in_a_row;
    shortest = attempt == 0 ? seconds : std::min(shortest, seconds);
  }
  return shortest;
}

}  // namespace

double measured_peak_flops(fsdp::World& world, torch::ScalarType dtype) {
  // A machine without instructions for the dtype need not do the larger ones, which take eight times as long each.
  constexpr double kLongest = 0.05;  // seconds
  const torch::NoGradGuard no_grad;
  const torch::Device device = world.device();
  const auto [widths, in_a_row] = measurement_on(device);
  world.barrier();
  double best = 0, shortest = 0;
  for (size_t i = 0; i < widths.size() && shortest < kLongest; ++i) {
    shortest = seconds_of_product(widths[i], in_a_row, torch::dtype(dtype).device(device));
    best = std::max(best, 2.0 * static_cast<double>(widths[i] * widths[i] * widths[i]) / shortest);
  }
  torch::Tensor rate = torch::tensor({best}, torch::kFloat64);
  world.all_reduce_(rate);
  return rate.item<double>();
}

}  // namespace trainer
