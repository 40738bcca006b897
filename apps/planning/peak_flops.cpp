#include "planning/peak_flops.h"

#include <torch/cuda.h>

#include <algorithm>
#include <chrono>
#include <vector>

namespace trainer {

namespace {

using Clock = std::chrono::steady_clock;

// A host queues work faster than a GPU computes, so short products follow each other there without a pause.
struct Measurement {
  std::vector<int64_t> widths;
  int most_in_a_row;
};

Measurement measurement_on(const torch::Device& device) {
  if (device.is_cuda()) return {.widths = {1024, 2048, 4096}, .most_in_a_row = 16};
  return {.widths = {128, 256, 512, 1024}, .most_in_a_row = 1};
}

void wait_for(const torch::Device& device) {
  if (device.is_cuda()) torch::cuda::synchronize(device.index());
}

struct Counted {
  double products;
  double seconds;  // until all ranks had done theirs
};

// This rank's work while all measure: products of two matrices of this width, the second one transposed, like a linear
// layer's weight.
Counted count_products(fsdp::World& world, int64_t width, int most_in_a_row, const torch::TensorOptions& options) {
  constexpr double kWindow = 0.05, kShort = 0.01;  // seconds
  const torch::Tensor left = torch::ones({width, width}, options), right = torch::ones({width, width}, options);
  torch::mm(left, right.t());  // makes what products need
  wait_for(options.device());
  Clock::time_point begin = Clock::now();
  const auto seconds = [&begin] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  int in_a_row = 1;
  if (most_in_a_row > 1) {
    torch::mm(left, right.t());
    wait_for(options.device());
    in_a_row = std::clamp(static_cast<int>(kShort / seconds()), 1, most_in_a_row);
  }
  world.barrier();
  begin = Clock::now();
  double products = 0;
  do {
    for (int product = 0; product < in_a_row; ++product) torch::mm(left, right.t());
    wait_for(options.device());
    products += in_a_row;
  } while (seconds() < kWindow);
  world.barrier();
  return {products, seconds()};
}

// In operations per second. Ranks that share cores may begin one after the other: the time is that of the rank that
// began first, until the last one ended.
double rate_together(fsdp::World& world, int64_t width, int most_in_a_row, const torch::TensorOptions& options) {
  const Counted here = count_products(world, width, most_in_a_row, options);
  double products = 0, seconds = 0;
  for (const torch::Tensor& rank : world.all_gather(torch::tensor({here.products, here.seconds}, torch::kFloat64))) {
    products += rank[0].item<double>();
    seconds = std::max(seconds, rank[1].item<double>());
  }
  const double cube = static_cast<double>(width) * static_cast<double>(width) * static_cast<double>(width);
  return 2 * cube * products / seconds;
}

}  // namespace

double measured_peak_flops(fsdp::World& world, torch::ScalarType dtype) {
  // A machine without instructions for the dtype need not do the larger ones, which take eight times as long each.
  constexpr double kLongest = 0.05;  // seconds per product
  const torch::NoGradGuard no_grad;
  const torch::Device device = world.device();
  const auto [widths, most_in_a_row] = measurement_on(device);
  double best = 0;
  for (int64_t width : widths) {
    const double rate = rate_together(world, width, most_in_a_row, torch::dtype(dtype).device(device));
    best = std::max(best, rate);
    const double operations = 2 * static_cast<double>(width) * static_cast<double>(width) * static_cast<double>(width);
    if (world.size() * operations / rate > kLongest) break;  // the same on every rank
  }
  return best;
}

}  // namespace trainer
