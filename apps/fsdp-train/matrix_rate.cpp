#include "matrix_rate.h"

#include <algorithm>
#include <array>
#include <chrono>

namespace trainer {

double measured_matrix_rate(fsdp::World& world, torch::ScalarType dtype) {
  using Clock = std::chrono::steady_clock;
  constexpr std::array<int64_t, 4> kWidths = {128, 256, 512, 1024};
  constexpr int kProducts = 3;  // of each width; the first makes what products need
  // A machine without instructions for the dtype need not do the larger ones, which take eight times as long each.
  constexpr double kLongest = 0.05;  // seconds
  const torch::NoGradGuard no_grad;
  world.barrier();
  double best = 0, shortest = 0;
  for (size_t i = 0; i < kWidths.size() && shortest < kLongest; ++i) {
    const int64_t width = kWidths[i];
    const torch::Tensor left = torch::ones({width, width}, dtype), right = torch::ones({width, width}, dtype);
    for (int product = 0; product < kProducts; ++product) {
      const Clock::time_point begin = Clock::now();
      torch::mm(left, right);
      const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
      shortest = product == 0 ? seconds : std::min(shortest, seconds);
    }
    best = std::max(best, 2.0 * static_cast<double>(width * width * width) / shortest);
  }
  torch::Tensor rate = torch::tensor({best}, torch::kFloat64);
  world.all_reduce_(rate);
  return rate.item<double>();
}

}  // namespace trainer
