#include "plan/failures.h"

#include <fmt/format.h>

#include <cmath>
#include <numbers>

#include "base/error.h"

namespace fsdp::plan {

namespace {

void check(const FailureTimes& times) {
  const auto is_time = [](double time) { return std::isfinite(time) && time >= 0; };
  if (!is_time(times.between_failures) || times.between_failures == 0 || !is_time(times.save) ||
      !is_time(times.restart))
    throw Error(
        fmt::format("failures: {} s between failures, {} s for a checkpoint, {} s for a restart. The first has "
                    "to be above 0, and the others 0 or above.",
                    times.between_failures, times.save, times.restart));
}

double normal_density(double x) { return std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi); }
double normal_share_below(double x) { return std::erfc(-x / std::numbers::sqrt2) / 2; }

}  // namespace

double young_interval(const FailureTimes& times) {
  check(times);
  return std::sqrt(2 * times.save * times.between_failures);
}

double daly_interval(const FailureTimes& times) {
  check(times);
  if (times.save >= 2 * times.between_failures) return times.between_failures;
  const double ratio = times.save / (2 * times.between_failures);
  return young_interval(times) * (1 + std::sqrt(ratio) / 3 + ratio / 9) - times.save;
}

double useful_share(const FailureTimes& times, double interval) {
  check(times);
  if (!(interval > 0) || !std::isfinite(interval))
    throw Error(fmt::format("failures: a checkpoint every {} s; the interval has to be above 0", interval));
  const double mean = times.between_failures;
  return interval / (mean * std::exp(times.restart / mean) * std::expm1((interval + times.save) / mean));
}

double expected_largest(int64_t count) {
  if (count < 1) throw Error(fmt::format("the largest of {} variables: there has to be at least one", count));
  if (count == 1) return 0;
  // The integral of x over the density of the largest, by the trapezoidal rule, beyond which nothing counts.
  constexpr double kEnd = 12;
  constexpr int kPoints = 4096;
  const auto n = static_cast<double>(count);
  double sum = 0;
  for (int i = 0; i <= kPoints; ++i) {
    const double x = kEnd * (2.0 * i / kPoints - 1);
    sum += x * n * normal_density(x) * std::pow(normal_share_below(x), n - 1);
  }
  return sum * 2 * kEnd / kPoints;
}

}  // namespace fsdp::plan
