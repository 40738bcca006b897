#include <torch/torch.h>

#include "memory/byte_store.h"

namespace fsdp::memory {

namespace {

class HostBytes final : public StoredBytes {
 public:
  explicit HostBytes(const torch::Tensor& bytes)
      : device_(bytes.device()), is_elsewhere_(!device_.is_cpu()), host_(torch::empty(bytes.sizes(), on_host())) {
    host_.copy_(bytes, /*non_blocking=*/is_elsewhere_);
  }
  torch::Tensor get() override {
    const torch::NoGradGuard no_grad;
    const torch::Tensor bytes = torch::empty(host_.sizes(), host_.options().device(device_).pinned_memory(false));
    return bytes.copy_(host_, /*non_blocking=*/is_elsewhere_);
  }

 private:
  torch::TensorOptions on_host() const { return torch::dtype(torch::kUInt8).pinned_memory(is_elsewhere_); }

  torch::Device device_;
  bool is_elsewhere_;
  torch::Tensor host_;
};

class HostStore final : public ByteStore {
 public:
  std::shared_ptr<StoredBytes> put(const torch::Tensor& bytes) override {
    const torch::NoGradGuard no_grad;
    return std::make_shared<HostBytes>(bytes);
  }
};

}  // namespace

std::shared_ptr<ByteStore> host_store() { return std::make_shared<HostStore>(); }

}  // namespace fsdp::memory
