#include <torch/types.h>

#include <mutex>
#include <utility>

#include "memory/byte_store.h"
#include "memory/pages.h"
#include "memory/stored_pieces.h"

namespace fsdp::memory {

namespace {

class SharedPieces {
 public:
  explicit SharedPieces(MemoryFile file) : pieces_(std::move(file), {}) {}

  int64_t put(const torch::Tensor& bytes) {
    const std::lock_guard lock(mutex_);
    return pieces_.put(bytes.const_data_ptr(), bytes.nbytes());
  }
  Mapping map(int64_t number, size_t bytes) {
    const std::lock_guard lock(mutex_);
    pieces_.is_wanted(number);
    return {pieces_.file(), whole_pages(bytes), Access::Write, pieces_.offset_of(number)};
  }
  void give_back(int64_t number) noexcept {
    const std::lock_guard lock(mutex_);
    pieces_.give_back(number);
  }

 private:
  std::mutex mutex_;
  StoredPieces pieces_;
};

// A piece is mapped while it has a holder. Its mapped parts keep their place.
class FileBytes final : public StoredBytes, public std::enable_shared_from_this<FileBytes> {
 public:
  FileBytes(std::shared_ptr<SharedPieces> pieces, const torch::Tensor& bytes)
      : pieces_(std::move(pieces)), number_(pieces_->put(bytes)), bytes_(bytes.nbytes()) {}
  ~FileBytes() override { pieces_->give_back(number_); }
  FileBytes(const FileBytes&) = delete;
  FileBytes& operator=(const FileBytes&) = delete;

  torch::Tensor get() override {
    auto mapping = std::make_shared<Mapping>(pieces_->map(number_, bytes_));
    void* begin = mapping->base();
    const auto unmap = [place = shared_from_this(), mapping = std::move(mapping)](void*) mutable { mapping.reset(); };
    return torch::from_blob(begin, {static_cast<int64_t>(bytes_)}, unmap, torch::kUInt8);
  }

 private:
  std::shared_ptr<SharedPieces> pieces_;
  int64_t number_;
  size_t bytes_;
};

class FileStore final : public ByteStore {
 public:
  explicit FileStore(MemoryFile file) : pieces_(std::make_shared<SharedPieces>(std::move(file))) {}
  std::shared_ptr<StoredBytes> put(const torch::Tensor& bytes) override {
    return std::make_shared<FileBytes>(pieces_, bytes);
  }

 private:
  std::shared_ptr<SharedPieces> pieces_;
};

}  // namespace

std::shared_ptr<ByteStore> file_store(std::shared_ptr<const OffloadFolder> folder) {
  return std::make_shared<FileStore>(MemoryFile::create(std::move(folder)));
}

}  // namespace fsdp::memory
