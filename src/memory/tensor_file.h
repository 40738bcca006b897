// Tensors in one file: each has pages of its own. Any thread.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <mutex>

#include "memory/heap.h"
#include "memory/memory_file.h"

namespace fsdp::memory {

// The pages of a tensor that is destroyed: they take no room any more; or they are as they were until
// another tensor takes them, for who reads the file afterwards.
enum class Freed { TakeNoRoom, Stay };

class TensorFile {
 public:
  explicit TensorFile(MemoryFile file, Freed freed = Freed::TakeNoRoom) : file_(std::move(file)), freed_(freed) {}

  // That many bytes for which there is room. Throws Error.
  struct Taken {
    size_t offset;
    bool is_zero;
  };
  Taken take(size_t bytes);
  void give_back(size_t offset) noexcept;
  const MemoryFile& file() const { return file_; }

 private:
  std::mutex mutex_;
  MemoryFile file_;
  Freed freed_;
  Heap heap_{0, kMostFileBytes};
  size_t used_ = 0;  // bytes from the beginning, some of which were taken before
};

// [numel], on the CPU. Keeps the file. Throws Error.
torch::Tensor zeros_in(const std::shared_ptr<TensorFile>& file, int64_t numel, torch::ScalarType dtype);

}  // namespace fsdp::memory
