// Where a gradient that is not finite is.
#pragma once

#include <fsdp/fsdp.h>

#include <optional>
#include <string>

#include "models/model_config.h"

namespace trainer {

struct NotFinite {
  std::string parameter, unit;
  int rank;  // that holds the piece; the sum over all ranks came to it, so that any of them may have made it
};

// The first parameter, in the order of the units, whose gradient is not finite; none when all are finite. Also after
// clip_grad_norm_, until something else reads or uses the gradients. A collective.
std::optional<NotFinite> first_not_finite(fsdp::World& world, const fsdp::ShardedModel& sharded,
                                          const models::ModelConfig& model);

}  // namespace trainer
