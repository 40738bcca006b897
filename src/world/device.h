// Which device a rank computes on.
//
// In the rank's own process: a process that has asked CUDA anything cannot be forked into ranks any more.
#pragma once

#include <torch/types.h>

#include <string>

namespace fsdp::world {

// With `gpus` of them in sight: backend nccl wants one, auto takes one where there is one, the others are for the CPU.
// Ranks of a host take them in turn. Throws Error where one is wanted and there is none.
torch::Device choose_device(const std::string& backend, int local_rank, int gpus);

// As above, for the GPUs that this process sees. A GPU becomes the thread's current one.
torch::Device take_device(const std::string& backend, int local_rank);

// Names a GPU. Ranks with equal texts share a GPU, which NCCL refuses. NCCL treats ranks with different NCCL_HOSTID
// (`nccl_host`; null: not set) as ranks of different hosts, and lets them share one. Only tests need that, so it holds
// for backend nccl alone: `auto` takes the faster way through the host's memory.
std::string place_of_gpu(const std::string& backend, const std::string& machine, const std::string& gpu,
                         const char* nccl_host);

}  // namespace fsdp::world
