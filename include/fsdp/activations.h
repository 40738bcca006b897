// Measures, before anything is sharded, the tensors that a step keeps between its forward and its backward.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "fsdp/activation_memory.h"

namespace fsdp {

// Storages that autograd keeps for a backward at one moment, in bytes each, the largest first. Tensors that share a
// storage count once, with the whole storage. Storages of the module's parameters are left out.
using KeptStorages = std::vector<int64_t>;

// Runs `run` and returns the storages that autograd keeps, at each moment before it frees some of them. The last
// element is the moment when `run` returns, if autograd keeps anything then. If `run` is a forward that returns the
// loss, the last element is the memory that its backward will need. If `run` is a forward and a backward, the largest
// sum is MemoryReport's peak of such a step of the sharded module.
//
//   auto kept = fsdp::preview_activations(*model, [&] { return model->loss(batch); });
//   const int64_t bytes = std::accumulate(kept.back().begin(), kept.back().end(), int64_t{0});
//
// `run` is called once, with its usual effects: it draws random numbers and writes buffers and gradients. The module
// may be on any device, and may be sharded already.
std::vector<KeptStorages> preview_activations(const torch::nn::Module& module,
                                              const std::function<torch::Tensor()>& run);

// The sizes, without times, that a budget for activations needs (activation_memory.h). `run` is a forward and a
// backward. During it every outermost Recomputed block of the module keeps only its inputs. Afterwards the blocks' own
// options hold again. Blocks that `run` does not call are left out.
//
// The module must not be sharded. Also throws Error if it has no Recomputed block.
RecomputedStorages preview_recomputation(torch::nn::Module& module, const std::function<torch::Tensor()>& run);

// One moment of a step with Options::offload_activations.
struct OffloadedMoment {
  KeptStorages in_memory;  // storages that stay
  KeptStorages offloaded;  // storages that are moved
};

// As preview_activations, with all storages offloaded that can be, even small ones. In a real run, storages below
// Options::offload_activations_from stay in memory. Offloading here means a copy in memory. Throws the same errors.
std::vector<OffloadedMoment> preview_offload(const torch::nn::Module& module,
                                             const std::function<torch::Tensor()>& run);

}  // namespace fsdp
