// Where a gradient that is not finite came from.
#pragma once

#include <fsdp/fsdp.h>

#include <optional>
#include <string>

namespace trainer {

// The first parameter, in the order of the units, whose gradient is not finite on any rank; none when all are finite.
// To be called before gradients are clipped. A collective.
std::optional<std::string> first_parameter_not_finite(fsdp::World& world, const fsdp::ShardedModel& model);

}  // namespace trainer
