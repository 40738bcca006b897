// Tensors in one file of this rank's on a disk.
#include <fcntl.h>

#include <utility>

#include "memory/backing.h"
#include "memory/tensor_file.h"

namespace fsdp::memory {

namespace {

class FileBacking final : public Backing {
 public:
  explicit FileBacking(std::shared_ptr<const OffloadFolder> folder)
      : folder_(std::move(folder)), file_(std::make_shared<TensorFile>(MemoryFile::create(folder_))) {
    // A step uses sums and state once: where memory is short they leave it before the parameters, which it uses in its
    // forward, its backward and its update.
    posix_fadvise(file_->file().descriptor(), 0, 0, POSIX_FADV_NOREUSE);
  }

  torch::Tensor zeros(int64_t numel, const torch::TensorOptions& options) override {
    return zeros_in(file_, numel, c10::typeMetaToScalarType(options.dtype()));
  }
  MemoryFile new_file() override { return MemoryFile::create(folder_); }
  MemoryFile open_file(pid_t process, int descriptor, size_t first_byte, int owner) override {
    return MemoryFile::open(process, descriptor, owner, folder_).part(first_byte);
  }

 private:
  std::shared_ptr<const OffloadFolder> folder_;
  std::shared_ptr<TensorFile> file_;
};

}  // namespace

std::shared_ptr<Backing> file_backing(std::shared_ptr<const OffloadFolder> folder) {
  return std::make_shared<FileBacking>(std::move(folder));
}

}  // namespace fsdp::memory
