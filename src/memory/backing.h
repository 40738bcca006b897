// Where the tensors lie that live as long as a model: its shards, the sums of their gradients, the optimizer's state.
//
// Whoever makes such a tensor is given a Backing to ask for it, and nobody else knows which kind it is. Those who know
// when a tensor is used tell it (mapped_tensor.h), whatever it is. Any thread.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <memory>

#include "memory/memory_file.h"
#include "memory/offload_folder.h"

namespace fsdp::memory {

class Backing {
 public:
  virtual ~Backing() = default;
  // [numel] of the options' dtype, on their device, or on the CPU. Throws Error.
  virtual torch::Tensor zeros(int64_t numel, const torch::TensorOptions& options) = 0;
  // A file for memory that ranks of this host share. One makes it and the others, whose backing is of the same kind,
  // open it. Throws Error.
  virtual MemoryFile new_file() = 0;
  virtual MemoryFile open_file(pid_t process, int descriptor, int owner) = 0;
};

// Memory of the device that is asked for.
std::shared_ptr<Backing> plain_backing();
// The host's memory, whatever the device.
std::shared_ptr<Backing> host_backing();
// Files in the folder, mapped into memory; tensors on the CPU.
std::shared_ptr<Backing> file_backing(std::shared_ptr<const OffloadFolder> folder);

}  // namespace fsdp::memory
