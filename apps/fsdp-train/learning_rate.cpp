#include "learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace trainer {

double LearningRate::at(int64_t step) const {
  if (step < warmup) return peak * static_cast<double>(step + 1) / static_cast<double>(warmup);
  const int64_t falling = std::max<int64_t>(1, steps - warmup);
  const double done = static_cast<double>(step + 1 - warmup) / static_cast<double>(falling);
  const double lowest = peak / 10;
  return lowest + (peak - lowest) * 0.5 * (1.0 + std::cos(std::numbers::pi * std::min(done, 1.0)));
}

}  // namespace trainer
