#include "matrix_rate.h"

#include <algorithm>
#include <chrono>

namespace trainer {

double measured_matrix_rate(fsdp::World& world, torch::ScalarType dtype) {
  using Clock = std::chrono::steady_clock;
  constexpr int64_t kWidth = 1024;
  constexpr int kProducts = 5;
  constexpr double kLongest = 0.5;  // seconds; a machine without instructions for the dtype need not do them all
  const torch::NoGradGuard no_grad;
  const torch::Tensor left = torch::ones({kWidth, kWidth}, dtype), right = torch::ones({kWidth, kWidth}, dtype);
  torch::mm(left, right);  // makes what the first one makes
  world.barrier();
  double best = 0, spent = 0;
  for (int i = 0; i < kProducts && spent < kLongest; ++i) {
    const Clock::time_point begin = Clock::now();
    torch::mm(left, right);
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    best = std::max(best, 2.0 * kWidth * kWidth * kWidth / seconds);
    spent += seconds;
  }
  torch::Tensor rate = torch::tensor({best}, torch::kFloat64);
  world.all_reduce_(rate);
  return rate.item<double>();
}

}  // namespace trainer
