#include "memory/mapped_tensor.h"

#include <c10/core/Storage.h>
#include <torch/types.h>

#include <utility>

namespace fsdp::memory {

namespace {

using SharedPages = std::shared_ptr<const FilePages>;

// By it such a tensor is known.
void release_pages(void* pages) { delete static_cast<SharedPages*>(pages); }

}  // namespace

torch::Tensor tensor_over(SharedPages pages, int64_t numel, torch::ScalarType dtype) {
  char* begin = pages->begin();
  const auto bytes = static_cast<size_t>(numel) * c10::elementSize(dtype);
  at::DataPtr owned(begin, new SharedPages(std::move(pages)), &release_pages, torch::kCPU);
  const c10::Storage storage(c10::Storage::use_byte_size_t(), bytes, std::move(owned), /*allocator=*/nullptr,
                             /*resizable=*/false);
  return torch::empty({0}, torch::dtype(dtype)).set_(storage, 0, {numel}, {1});
}

SharedPages pages_of(const torch::Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage()) return nullptr;
  const at::DataPtr& data = tensor.storage().data_ptr();
  return data.get_deleter() == &release_pages ? *static_cast<SharedPages*>(data.get_context()) : nullptr;
}

}  // namespace fsdp::memory
