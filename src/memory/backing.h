// Where the tensors lie that live as long as a model: its shards, the sums of their gradients, the optimizer's state.
//
// Callers do not depend on the kind. Those who know when a tensor is used tell it (mapped_tensor.h), whatever it is.
// Any thread.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <memory>

#include "memory/memory_file.h"
#include "memory/offload_folder.h"

namespace fsdp::memory {

class HeldRank;

class Backing {
 public:
  virtual ~Backing() = default;
  // [numel] of the options' dtype, on their device, or on the CPU. Throws Error.
  virtual torch::Tensor zeros(int64_t numel, const torch::TensorOptions& options) = 0;
  // A file for memory that ranks of this host share. One makes it and the others, whose backing is of the same kind,
  // open it. Throws Error.
  virtual MemoryFile new_file() = 0;
  virtual MemoryFile open_file(pid_t process, int descriptor, size_t first_byte, int owner) = 0;
  // Something that lies here is about to be written.
  virtual void changes() {}
  // Where it outlives this process, this rank's part of it; otherwise null.
  virtual HeldRank* held() { return nullptr; }
};

// Memory of the device that is asked for.
std::shared_ptr<Backing> plain_backing();
// The host's memory, whatever the device. `pinned`: for copies to and from a device beside its computation.
std::shared_ptr<Backing> host_backing(bool pinned = false);
// Files in the folder, mapped into memory; tensors on the CPU.
std::shared_ptr<Backing> file_backing(std::shared_ptr<const OffloadFolder> folder);
// The host's memory, held by the launcher (held_memory.h); tensors on the CPU.
std::shared_ptr<Backing> held_backing(std::shared_ptr<HeldRank> held);

}  // namespace fsdp::memory
