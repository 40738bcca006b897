#include "options/learning_rate.h"

#include <fmt/format.h>
#include <fsdp/error.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace trainer {

double half_cosine(double done) { return 0.5 * (1.0 + std::cos(std::numbers::pi * done)); }
double straight_line(double done) { return 1.0 - done; }
double level(double) { return 1.0; }

const Schedule& schedule_named(std::string_view name) {
  const auto found =
      std::find_if(kSchedules.begin(), kSchedules.end(), [&](const Schedule& one) { return one.name == name; });
  if (found == kSchedules.end()) {
    throw fsdp::Error(
        fmt::format("'{}' is no schedule of the learning rate. Use cosine, linear, wsd or constant.", name));
  }
  return *found;
}

double LearningRate::at(int64_t step) const {
  if (step < warmup) return peak * static_cast<double>(step + 1) / static_cast<double>(warmup);
  const int64_t falling = std::max<int64_t>(1, schedule.falls_at_the_end ? decay_steps : steps - warmup);
  const double done = static_cast<double>(step + 1 - (steps - falling)) / static_cast<double>(falling);
  const double left = schedule.left(std::clamp(done, 0.0, 1.0));
  if (left == 1.0) return peak;                      // which the sum below might round
  const double lowest = peak / (1.0 / final_share);  // of a tenth: peak / 10, to the last bit
  return lowest + (peak - lowest) * left;
}

}  // namespace trainer
