// Where the curves of fsdp-plan scaling bend, and why: sentences made of the simulation's numbers.
#pragma once

#include <string>

#include "planning/scaling_curves.h"

namespace planner {

// "waits for collectives"
std::string part_name(fsdp::plan::TimePart part);

// Two or three sentences on a bend of the curve.
std::string bend_text(const trainer::ScalingCurve& curve, const fsdp::plan::Bend& bend,
                      const fsdp::plan::ClusterFacts& cluster);

// "427", "5.9": TFLOP/s
std::string rate_text(const trainer::CurvePoint& point);

// The rates at both ends of the curve, and the parts of the time at its end.
std::string ends_text(const trainer::ScalingCurve& curve);

// The best hosts for a strategy, and the part that makes the difference to the worst ones.
std::string hosts_text(const trainer::ScalingCurve& curve);

}  // namespace planner
