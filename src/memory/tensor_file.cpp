#include "memory/tensor_file.h"

#include <algorithm>

#include "memory/mapped_tensor.h"
#include "memory/pages.h"

namespace fsdp::memory {

TensorFile::Taken TensorFile::take(size_t bytes) {
  const std::lock_guard lock(mutex_);
  const size_t offset = heap_.take(bytes).value();
  try {
    file_.grant(offset, whole_pages(bytes));
  } catch (...) {
    heap_.give_back(offset);
    throw;
  }
  const Taken taken{offset, freed_ == Freed::TakeNoRoom || offset >= used_};
  used_ = std::max(used_, offset + bytes);
  return taken;
}

void TensorFile::give_back(size_t offset) noexcept {
  const std::lock_guard lock(mutex_);
  const size_t length = heap_.give_back(offset);
  if (freed_ == Freed::TakeNoRoom) file_.take_back(offset, length);
}

torch::Tensor zeros_in(const std::shared_ptr<TensorFile>& file, int64_t numel, torch::ScalarType dtype) {
  const size_t bytes = static_cast<size_t>(numel) * c10::elementSize(dtype);
  if (bytes == 0) return torch::zeros({numel}, dtype);
  // From the last to be destroyed to the first: the place in the file, its mapping.
  const auto [offset, is_zero] = file->take(bytes);
  const std::shared_ptr<void> place(nullptr, [file, offset = offset](void*) { file->give_back(offset); });
  auto* mapped = new Mapping(file->file(), whole_pages(bytes), Access::Write, offset);
  const std::shared_ptr<const Mapping> mapping(mapped, [place](const Mapping* mapping) { delete mapping; });
  if (!file->file().on_disk()) {
    torch::Tensor tensor = torch::from_blob(
        mapping->base(), {numel}, [mapping](void*) {}, torch::dtype(dtype));
    return is_zero ? tensor : tensor.zero_();
  }
  return tensor_over(std::make_shared<FilePages>(*file->file().on_disk(), mapping, offset, mapping->base(), bytes),
                     numel, dtype);
}

}  // namespace fsdp::memory
