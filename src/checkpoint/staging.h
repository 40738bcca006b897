// Copies of a rank's part of the state, which a save is written from while training goes on.
//
// Their memory is kept from one copy to the next, since to ask the system for it anew takes longer than the copying.
// One copy at a time; any thread.
#pragma once

#include <torch/types.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "memory/memory_file.h"

namespace fsdp::checkpoint {

class Staging {
 public:
  // Puts a copy, in memory of this, in the place of each tensor; they are on the CPU and contiguous. The copies are
  // good until the next call. Throws Error, with nothing changed, where the host has no memory for them.
  void copy(const std::vector<torch::Tensor*>& tensors);

  size_t bytes() const { return memory_ ? memory_->bytes() : 0; }

 private:
  void reserve(size_t bytes);

  std::shared_ptr<const memory::Mapping> memory_;
};

}  // namespace fsdp::checkpoint
