// Tensors and files of a rank in the memory that its launcher holds. A rank that ends in good order leaves them as they
// are, as one does that is killed.
#include <atomic>
#include <utility>

#include "base/error.h"
#include "memory/backing.h"
#include "memory/held_memory.h"
#include "memory/tensor_file.h"

namespace fsdp::memory {

namespace {

class HeldBacking final : public Backing {
 public:
  explicit HeldBacking(std::shared_ptr<HeldRank> held)
      : held_(std::move(held)),
        tensors_(std::make_shared<TensorFile>(held_->file().part(HeldRank::kTensors), Freed::Stay)) {}

  // A tensor may take the place of one that is gone, and that the table of what is held names.
  torch::Tensor zeros(int64_t numel, const torch::TensorOptions& options) override {
    changes();
    held_->forget_places();
    return zeros_in(tensors_, numel, c10::typeMetaToScalarType(options.dtype()));
  }
  MemoryFile new_file() override {
    const size_t number = files_made_.fetch_add(1);
    return held_->file().part(HeldRank::kFiles + number * HeldRank::kFileBytes);
  }
  MemoryFile open_file(pid_t process, int descriptor, size_t first_byte, int owner) override {
    return MemoryFile::open(process, descriptor, owner).part(first_byte);
  }
  void changes() override { held_->changes(); }
  HeldRank* held() override { return held_.get(); }

 private:
  std::shared_ptr<HeldRank> held_;
  std::shared_ptr<TensorFile> tensors_;
  std::atomic<size_t> files_made_{0};
};

}  // namespace

std::shared_ptr<Backing> held_backing(std::shared_ptr<HeldRank> held) {
  return std::make_shared<HeldBacking>(std::move(held));
}

}  // namespace fsdp::memory
