// Tensors in one file of this rank's: each has pages of its own, which are given back with it.
#include <mutex>
#include <utility>

#include "memory/backing.h"
#include "memory/heap.h"
#include "memory/mapped_tensor.h"
#include "memory/pages.h"

namespace fsdp::memory {

namespace {

class TensorFile {
 public:
  explicit TensorFile(MemoryFile file) : file_(std::move(file)) {}

  // The offset of that many bytes of zeros, which lie on the disk.
  size_t take(size_t bytes) {
    const std::lock_guard lock(mutex_);
    const size_t offset = heap_.take(bytes).value();
    try {
      file_.grant(offset, whole_pages(bytes));
    } catch (...) {
      heap_.give_back(offset);
      throw;
    }
    return offset;
  }
  void give_back(size_t offset) noexcept {
    const std::lock_guard lock(mutex_);
    file_.take_back(offset, heap_.give_back(offset));
  }
  const MemoryFile& file() const { return file_; }

 private:
  std::mutex mutex_;
  MemoryFile file_;
  Heap heap_{0, kMostFileBytes};
};

class FileBacking final : public Backing {
 public:
  explicit FileBacking(std::shared_ptr<const OffloadFolder> folder)
      : folder_(std::move(folder)), file_(std::make_shared<TensorFile>(MemoryFile::create(folder_))) {}

  torch::Tensor zeros(int64_t numel, const torch::TensorOptions& options) override;
  MemoryFile new_file() override { return MemoryFile::create(folder_); }
  MemoryFile open_file(pid_t process, int descriptor, int owner) override {
    return MemoryFile::open(process, descriptor, owner, folder_);
  }

 private:
  std::shared_ptr<const OffloadFolder> folder_;
  std::shared_ptr<TensorFile> file_;
};

torch::Tensor FileBacking::zeros(int64_t numel, const torch::TensorOptions& options) {
  const auto dtype = c10::typeMetaToScalarType(options.dtype());
  const size_t bytes = static_cast<size_t>(numel) * c10::elementSize(dtype);
  if (bytes == 0) return torch::zeros({numel}, options);
  // From the last to be destroyed to the first: the place in the file, its mapping.
  const size_t offset = file_->take(bytes);
  const std::shared_ptr<void> place(nullptr, [file = file_, offset](void*) { file->give_back(offset); });
  auto* mapped = new Mapping(file_->file(), whole_pages(bytes), Access::Write, offset);
  const std::shared_ptr<const Mapping> mapping(mapped, [place](const Mapping* mapping) { delete mapping; });
  return tensor_over(std::make_shared<FilePages>(file_->file().on_disk(), mapping, offset, mapping->base(), bytes),
                     numel, dtype);
}

}  // namespace

std::shared_ptr<Backing> file_backing(std::shared_ptr<const OffloadFolder> folder) {
  return std::make_shared<FileBacking>(std::move(folder));
}

}  // namespace fsdp::memory
