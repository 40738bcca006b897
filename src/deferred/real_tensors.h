// Deferred tensors made real: where they are, or written to where they are wanted.
#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <vector>

#include "fsdp/deferred_init.h"

namespace fsdp::deferred {

// The value of a tensor, in memory of its own where it is deferred; otherwise itself.
torch::Tensor value_of(const torch::Tensor& tensor);

// The value of a tensor to `place`, of its sizes. A deferred one is made there, where it alone fills its storage and
// lies in memory as `place` does.
void write_value(const torch::Tensor& tensor, const torch::Tensor& place);

// Zeros [numel] of fp32, for the values of a unit: in memory that goes back to the system.
torch::Tensor zeros_for_values(int64_t numel, torch::Device device);

// Gives deferred tensors their bytes, with all tensors that operators made in the same storages.
void make_real(const std::vector<torch::Tensor>& tensors);

// Makes a module's other tensors real: `others`, and held tensors that are neither parameters nor buffers (members of
// modules).
void make_real_beside(const std::vector<torch::Tensor>& parameters, const std::vector<torch::Tensor>& others);

}  // namespace fsdp::deferred
