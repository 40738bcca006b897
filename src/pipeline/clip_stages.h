// Clipping by the norm over all stages.
#pragma once

#include "pipeline/model_scope.h"
#include "pipeline/tied_gradients.h"

namespace fsdp::pipeline {

// ShardedModel::clip_grad_norm_ for stages that are not sharded: the same sum, so the same bits.
double clip_plain_stages(World& axis, const torch::nn::Module& stage, const TiedGradients& ties, double max_norm,
                         double norm_type);

}  // namespace fsdp::pipeline
