// What a forward will keep for its backward, before anything is sharded.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace fsdp {

// The storages that autograd keeps for the backward of what `forward` returns, in bytes, the largest first. A storage
// is there once, whole, however many tensors share it; those of the module's parameters are left out. Their sum is what
// MemoryReport calls activations at the end of such a forward of the sharded module.
//
//   auto sizes = fsdp::preview_activations(*model, [&] { return model->loss(batch); });
//
// `forward` is called once, and does what it does: it draws random numbers and writes buffers as always. The module may
// be on any device, or be sharded already. Throws `Error` in a process with Python, whose autograd engine is its own.
std::vector<int64_t> preview_activations(const torch::nn::Module& module,
                                         const std::function<torch::Tensor()>& forward);

}  // namespace fsdp
