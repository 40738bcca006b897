// Tensors over pages of a file, and what may be asked of any tensor: of another kind it does nothing.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <memory>

#include "memory/file_pages.h"

namespace fsdp::memory {

// [numel] over the first bytes of `pages`, which it keeps.
torch::Tensor tensor_over(std::shared_ptr<const FilePages> pages, int64_t numel, torch::ScalarType dtype);

// The pages of a tensor that `tensor_over` made, or of one that shares its memory; none for all others.
std::shared_ptr<const FilePages> pages_of(const torch::Tensor& tensor);

inline void read_ahead(const torch::Tensor& tensor) {
  if (const auto pages = pages_of(tensor)) pages->read_ahead();
}
inline void put_away(const torch::Tensor& tensor) {
  if (const auto pages = pages_of(tensor)) pages->put_away();
}

}  // namespace fsdp::memory
