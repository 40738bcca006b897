// What a step will keep between its forward and its backward, before anything is sharded.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "fsdp/activation_memory.h"

namespace fsdp {

// Storages that autograd keeps for a backward at one moment, in bytes each, the largest first. A storage is there once,
// whole, however many tensors share it; those of the module's parameters are left out.
using KeptStorages = std::vector<int64_t>;

// What autograd keeps while `run` runs, at each moment before something of it is given up, and last when `run` returns,
// if there is something then. For a forward that returns the loss, the last is what its backward will need; for a
// forward and a backward the moment with the largest sum is MemoryReport's peak of such a step of the sharded module.
//
//   auto kept = fsdp::preview_activations(*model, [&] { return model->loss(batch); });
//   const int64_t bytes = std::accumulate(kept.back().begin(), kept.back().end(), int64_t{0});
//
// `run` is called once, and does what it does: it draws random numbers and writes buffers and gradients as always. The
// module may be on any device, or be sharded already.
std::vector<KeptStorages> preview_activations(const torch::nn::Module& module,
                                              const std::function<torch::Tensor()>& run);

// The sizes of a step that a budget for activations needs (activation_memory.h), without times: `run` is a forward and
// a backward, in which every Recomputed block of the module that is not inside of another keeps its inputs alone. What
// their options say holds again afterwards. Blocks that `run` does not call are left out.
//
// As above; the module is not sharded. Throws Error, too, where it has no Recomputed block.
RecomputedStorages preview_recomputation(torch::nn::Module& module, const std::function<torch::Tensor()>& run);

// One moment of a step with Options::offload_activations.
struct OffloadedMoment {
  KeptStorages in_memory;
  KeptStorages offloaded;
};

// As preview_activations, where all storages are offloaded that may be, however small: those below
// Options::offload_activations_from stay in memory in a run. Offloaded here are copies in memory. The same errors.
std::vector<OffloadedMoment> preview_offload(const torch::nn::Module& module,
                                             const std::function<torch::Tensor()>& run);

}  // namespace fsdp
