#include "training/step_times.h"

#include <fmt/format.h>

#include <algorithm>

#include "console/units.h"

namespace trainer {

void StepTimes::add(const StepRecord& record) {
  if (!record.data_seconds || !record.forward_backward_seconds || !record.optimizer_seconds || !record.other_seconds) {
    return;
  }
  if (++passed_over_ < stride_) return;
  passed_over_ = 0;
  steps_.push_back({.data = *record.data_seconds,
                    .forward_backward = *record.forward_backward_seconds,
                    .optimizer = *record.optimizer_seconds,
                    .other = *record.other_seconds,
                    .wait = record.wait_seconds.value_or(0),
                    .mfu = record.mfu.value_or(0)});
  if (steps_.size() < kMost) return;
  for (size_t i = 0; 2 * i < steps_.size(); ++i) steps_[i] = steps_[2 * i];
  steps_.resize(steps_.size() / 2);
  stride_ *= 2;
}

double StepTimes::median(double Step::*part) const {
  std::vector<double> values;
  for (const Step& step : steps_) values.push_back(step.*part);
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::string StepTimes::text(double peak_flops) const {
  if (steps_.empty()) return "";
  const double passes = median(&Step::forward_backward), optimizer = median(&Step::optimizer),
               data = median(&Step::data), other = median(&Step::other);
  const double step = std::max(passes + optimizer + data + other, 1e-9);
  std::string text = fmt::format(
      "a step    {:>7.1f} ms  forward and backward {:.1f} %  optimizer {:.1f} %  data {:.1f} %  other {:.1f} %"
      "  of it waits for other ranks {:.1f} %\n",
      1000 * step, 100 * passes / step, 100 * optimizer / step, 100 * data / step, 100 * other / step,
      100 * median(&Step::wait) / step);
  if (const double mfu = median(&Step::mfu); mfu > 0) {
    text += fmt::format("MFU       {:>7.1f} %   of the {} that all ranks reach in products of large matrices\n",
                        100 * mfu, operation_rate(peak_flops));
  }
  return text;
}

}  // namespace trainer
