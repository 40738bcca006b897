// Comparison of the parameters that all ranks of a tensor axis hold whole.
#pragma once

#include "api/tensor_parallel/tensor_axis.h"
#include "engine/model.h"

namespace fsdp {

// Throws Error on every rank if their values differ between ranks of the axis. Skips parameters without values. Reads
// each shard once. A collective of the model, and of the axis.
void check_whole_values(const engine::Model& model, TensorAxis& axis);

}  // namespace fsdp
