#include "memory/backing.h"

namespace fsdp::memory {

namespace {

// LibTorch's memory, and anonymous files.
class PlainBacking : public Backing {
 public:
  torch::Tensor zeros(int64_t numel, const torch::TensorOptions& options) override {
    return torch::zeros({numel}, options);
  }
  MemoryFile new_file() override { return MemoryFile::create(); }
  MemoryFile open_file(pid_t process, int descriptor, size_t first_byte, int owner) override {
    return MemoryFile::open(process, descriptor, owner).part(first_byte);
  }
};

// Files that ranks share are not pinned.
class HostBacking final : public PlainBacking {
 public:
  explicit HostBacking(bool pinned) : pinned_(pinned) {}
  torch::Tensor zeros(int64_t numel, const torch::TensorOptions& options) override {
    return PlainBacking::zeros(numel, options.device(torch::kCPU).pinned_memory(pinned_));
  }

 private:
  bool pinned_;
};

}  // namespace

std::shared_ptr<Backing> plain_backing() { return std::make_shared<PlainBacking>(); }
std::shared_ptr<Backing> host_backing(bool pinned) { return std::make_shared<HostBacking>(pinned); }

}  // namespace fsdp::memory
