// A model's shape as the simulation takes it.
#pragma once

#include "models/model_config.h"
#include "plan/transformer.h"

namespace trainer {

fsdp::plan::TransformerShape transformer_shape(const models::ModelConfig& model);

}  // namespace trainer
