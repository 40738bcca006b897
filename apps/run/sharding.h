// From the words of the command line to the library's options.
#pragma once

#include <fsdp/options.h>

#include <filesystem>

#include "options/options.h"

namespace trainer {

// How the model is sharded: each of its blocks is a unit. Its first weights are not made: a load follows, or
// ShardedModel::initialise().
fsdp::Options sharding_of(const ShardedModelOptions& options);

// Where state and activations lie in files; empty where none do.
std::filesystem::path offload_folder_of(const ShardedModelOptions& options);

// The dtype of the passes' matrices.
torch::ScalarType compute_dtype_of(const ShardedModelOptions& options);

}  // namespace trainer
