#include "training/loss_trend.h"

namespace trainer {

std::optional<Validation> lowest_before_fall(const std::vector<Validation>& validations) {
  constexpr double kFall = 0.01;
  if (validations.empty()) return std::nullopt;
  const Validation last = validations.back();
  std::optional<Validation> early;
  for (const Validation& one : validations) {
    if (one.loss < last.loss) return std::nullopt;
    const bool is_early = 5 * one.step <= 4 * last.step;
    if (is_early && (!early || one.loss < early->loss)) early = one;
  }
  return early && last.loss <= (1 - kFall) * early->loss ? early : std::nullopt;
}

}  // namespace trainer
