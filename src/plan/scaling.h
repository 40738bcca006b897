// The rate of a rank as a job grows: a simulated step, the waits for the slowest rank, and failures. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "plan/sharded_step.h"

namespace fsdp::plan {

// Facts about a cluster beside its hardware. docs/scaling.md has the sources of the defaults.
struct ClusterFacts {
  // The deviation of the ranks' computation times, as a share of their mean. They are normal variables.
  double spread = 0.02;
  // The constants of the hardware were measured with so many ranks, and contain the waits among these.
  int64_t measured_ranks = 8;
  // Mean seconds between the failures of one rank, and of one host beside those of its ranks. Infinite: none.
  double rank_failures = 86'000.0 * 3600, host_failures = 15'000.0 * 3600;
  double save = 10;      // seconds for which a checkpoint stops the training
  double restart = 600;  // seconds from a failure until the training goes on from the newest checkpoint
};

// The parts of a job's time. They add up to all of it. Slowdown: computation is slower beside collectives.
// Communication: the device waits for collectives.
enum class TimePart { Compute, Slowdown, Communication, HostIdle, SlowestRank, Failures };
inline constexpr std::array kTimeParts{TimePart::Compute,  TimePart::Slowdown,    TimePart::Communication,
                                       TimePart::HostIdle, TimePart::SlowestRank, TimePart::Failures};

// A job of so many ranks.
struct ScalingPoint {
  int64_t ranks = 1, hosts = 1;
  double flops = 0;       // of the model, for one rank and step
  StepSeconds step = {};  // as simulated: all ranks are alike
  double slowdown = 0;    // seconds of its exposed communication by which computation is slower beside collectives
  double wait = 0;        // seconds of a step, for the slowest rank
  double between_failures = 0;  // seconds, of the job; infinite: none
  double save_interval = 0;     // seconds of training between checkpoints (daly_interval); infinite: none
  double useful = 1;            // share of the time that no failure and no checkpoint takes

  double step_seconds() const { return step.step + wait; }
  // Seconds per step of a long run.
  double seconds() const { return step_seconds() / useful; }
  // Operations of the model per second and rank.
  double rate() const { return flops / seconds(); }
  double share(TimePart part) const;
};

// Throws Error for facts out of range, and for fewer than one rank or host.
ScalingPoint scaling_point(const StepSeconds& step, int64_t ranks, int64_t hosts, double flops,
                           const ClusterFacts& facts);

// A place where a curve bends: a part passes a share of the time.
struct Bend {
  TimePart part = TimePart::Communication;
  size_t point = 0;  // the first one above the share; 0: the curve begins above it
};
// At most one for each part but the computation, those of smaller jobs first. `points`: from small to large.
std::vector<Bend> bends_of(std::span<const ScalingPoint> points, double share);

}  // namespace fsdp::plan
