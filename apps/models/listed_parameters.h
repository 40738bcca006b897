// Lists of parameters, as modules register them: for the units of each family.
#pragma once

#include <string>
#include <vector>

#include "models/model_config.h"

namespace models {

using Parameters = std::vector<Parameter>;
using Heads = std::vector<DividedHeads>;

// A linear layer whose rows are divided, as fsdp::ColumnParallelLinear: weight [out, in], and its bias.
void add_column_layer(Parameters& parameters, const std::string& name, const Heads& out, int64_t in, bool bias);

// A linear layer whose columns are divided, as fsdp::RowParallelLinear; all ranks have the bias.
void add_row_layer(Parameters& parameters, const std::string& name, int64_t out, int64_t in, bool bias);

// Its weight and bias.
void add_layer_norm(Parameters& parameters, const std::string& name, int64_t width);

// [vocabulary, width], divided by rows. `name` is the parameter's.
Parameter token_embedding(const ModelConfig& config, const std::string& name);

}  // namespace models
