// The rate of a rank by the number of ranks, and by the number of ranks on each host. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plan/scaling.h"
#include "plan/unit_collectives.h"
#include "planning/plan_target.h"

namespace trainer {

struct ScalingSettings {
  fsdp::plan::ClusterFacts cluster = {};
  int64_t most_ranks = 100'000;
  // Sequences of a step. None: each rank has as many as the options say, however many ranks there are.
  std::optional<int64_t> global_batch = std::nullopt;
  int64_t devices = 1024;  // of the curves over hosts of different sizes
};

// The collectives that run beside a pass of a layer, one after the other. Seconds.
struct LayerCollectives {
  std::vector<fsdp::plan::UnitCollective> all = {};
  bool is_forward = false;
  double seconds = 0;
  double latency = 0;  // part of `seconds`
  double compute = 0;  // of the pass
};

struct CurvePoint {
  fsdp::plan::ScalingPoint job = {};
  int64_t ranks_per_host = 1;
  int64_t batch = 1, micro_batches = 1;  // of a rank
  bool fits = false;                     // in the memory of a device
  LayerCollectives layer = {};           // of the pass that they outlast most
};

// A bend is where a part takes more than this share of the time.
inline constexpr double kNoticed = 0.1;
struct ScalingCurve {
  std::string strategy;
  std::vector<CurvePoint> points;            // at least one, the smaller jobs or hosts first
  std::vector<fsdp::plan::Bend> bends = {};  // of scaling_curve
};

// The numbers of ranks of a curve: those of one host times powers of 2, and the most. With a global batch those alone
// that divide it. Throws fsdp::Error if there are none.
std::vector<int64_t> ranks_of_curve(const ScalingSettings& settings, int64_t ranks_per_host);

// The curve of the strategy in `options`, which are resolved. Throws fsdp::Error for a run whose time is not simulated.
ScalingCurve scaling_curve(const PlanTarget& target, const RunOptions& options, const ScalingSettings& settings);

inline constexpr int64_t kLargestHost = 256;
// The same devices as many small hosts or as few large ones: from one rank on each host to kLargestHost, by powers of
// 2. Each rank brings its share of the network along. The batch of a rank is that of the options.
ScalingCurve host_curve(const PlanTarget& target, const RunOptions& options, const ScalingSettings& settings);

}  // namespace trainer
