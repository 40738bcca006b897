#include "report/bar_scale.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace trainer {

namespace {

// 1, 2 or 5 times a power of ten: up to five of them reach `high`.
double step_for(double high) {
  constexpr double kMostTicks = 5;
  const double power = std::pow(10, std::floor(std::log10(high / kMostTicks)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power * kMostTicks >= high) return factor * power;
  }
  return 10 * power;
}

}  // namespace

std::string BarScale::place(double value) const { return fmt::format("{:.3f}%", 100 * std::min(value / high, 1.0)); }

BarScale scale_up_to(double value) {
  if (!(value > 0) || !std::isfinite(value)) return {};
  const double step = step_for(value);
  return {.high = step * std::ceil(value / step - 1e-9), .step = step};
}

std::string without_zeros(std::string text) {
  const size_t point = text.find('.');
  if (point == std::string::npos) return text;
  const size_t end = std::min(text.find_first_not_of("0123456789", point + 1), text.size());
  size_t last = end;
  while (text[last - 1] == '0') --last;
  if (last - 1 == point) --last;
  return text.erase(last, end - last);
}

}  // namespace trainer
