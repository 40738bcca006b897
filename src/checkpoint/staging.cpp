#include "checkpoint/staging.h"

#include <cstring>

#include "memory/pages.h"

namespace fsdp::checkpoint {

namespace {

constexpr size_t kAligned = 64;

size_t aligned(size_t bytes) { return (bytes + kAligned - 1) / kAligned * kAligned; }

}  // namespace

void Staging::copy(const std::vector<torch::Tensor*>& tensors) {
  size_t bytes = 0;
  for (const torch::Tensor* tensor : tensors) bytes += aligned(tensor->nbytes());
  if (bytes == 0) return;
  reserve(bytes);
  char* place = memory_->base();
  for (torch::Tensor* tensor : tensors) {
    // Not by an operator: those have threads of their own, which training needs.
    std::memcpy(place, tensor->const_data_ptr(), tensor->nbytes());
    *tensor = torch::from_blob(
        place, tensor->sizes(), [memory = memory_](void*) {}, tensor->options());
    place += aligned(tensor->nbytes());
  }
}

void Staging::reserve(size_t bytes) {
  if (this->bytes() >= bytes) return;
  memory_.reset();
  const size_t whole = memory::whole_pages(bytes);
  memory::MemoryFile file = memory::MemoryFile::create();
  file.grant(0, whole);
  memory_ = std::make_shared<const memory::Mapping>(file, whole, memory::Access::Write);
}

}  // namespace fsdp::checkpoint
