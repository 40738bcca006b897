#include "plan/scaling.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/error.h"
#include "plan/failures.h"

namespace fsdp::plan {

namespace {

constexpr double kNoFailures = std::numeric_limits<double>::infinity();

void check(const ClusterFacts& facts) {
  FSDP_CHECK(facts.spread >= 0 && facts.spread < 1, "scaling: found a spread of {}, expected 0 or above, and below 1",
             facts.spread);
  FSDP_CHECK(facts.measured_ranks >= 1, "scaling: found {} measured ranks, expected at least 1", facts.measured_ranks);
  FSDP_CHECK(facts.rank_failures > 0 && facts.host_failures > 0,
             "scaling: found {} s between failures of a rank and {} s of a host, expected both above 0",
             facts.rank_failures, facts.host_failures);
  FSDP_CHECK(facts.save >= 0 && std::isfinite(facts.save) && facts.restart >= 0 && std::isfinite(facts.restart),
             "scaling: found {} s for a checkpoint and {} s for a restart, expected 0 or above", facts.save,
             facts.restart);
}

double wait_for_slowest(const StepSeconds& step, int64_t ranks, const ClusterFacts& facts) {
  if (facts.spread == 0 || ranks <= facts.measured_ranks) return 0;
  return facts.spread * step.compute * (expected_largest(ranks) - expected_largest(facts.measured_ranks));
}

void add_failures(ScalingPoint& point, const ClusterFacts& facts) {
  const double rate =
      static_cast<double>(point.ranks) / facts.rank_failures + static_cast<double>(point.hosts) / facts.host_failures;
  point.between_failures = point.save_interval = kNoFailures;
  if (rate == 0) return;
  const FailureTimes times{.between_failures = 1 / rate, .save = facts.save, .restart = facts.restart};
  point.between_failures = times.between_failures;
  point.save_interval = daly_interval(times);
  // Checkpoints that take no time follow each other without a pause.
  point.useful =
      facts.save == 0 ? std::exp(-facts.restart / times.between_failures) : useful_share(times, point.save_interval);
}

}  // namespace

double ScalingPoint::share(TimePart part) const {
  const double all = step_seconds();
  switch (part) {
    case TimePart::Compute:
      return useful * step.compute / all;
    case TimePart::Slowdown:
      return useful * slowdown / all;
    case TimePart::Communication:
      return useful * (step.exposed_communication - slowdown) / all;
    case TimePart::HostIdle:
      return useful * (step.step - step.compute - step.exposed_communication) / all;
    case TimePart::SlowestRank:
      return useful * wait / all;
    case TimePart::Failures:
      return 1 - useful;
  }
  return 0;
}

ScalingPoint scaling_point(const StepSeconds& step, int64_t ranks, int64_t hosts, double flops,
                           const ClusterFacts& facts) {
  check(facts);
  FSDP_CHECK(ranks >= 1 && hosts >= 1, "scaling: found {} ranks on {} hosts, expected at least 1 of each", ranks,
             hosts);
  ScalingPoint point{.ranks = ranks, .hosts = hosts, .flops = flops, .step = step};
  point.wait = wait_for_slowest(step, ranks, facts);
  add_failures(point, facts);
  return point;
}

std::vector<Bend> bends_of(std::span<const ScalingPoint> points, double share) {
  std::vector<Bend> bends;
  for (const TimePart part : kTimeParts) {
    if (part == TimePart::Compute) continue;
    const auto above =
        std::ranges::find_if(points, [&](const ScalingPoint& point) { return point.share(part) > share; });
    if (above != points.end()) bends.push_back({part, static_cast<size_t>(above - points.begin())});
  }
  std::ranges::sort(bends, {}, [](const Bend& bend) { return std::pair(bend.point, bend.part); });
  return bends;
}

}  // namespace fsdp::plan
