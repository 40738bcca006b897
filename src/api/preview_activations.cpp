#include <memory>
#include <utility>

#include "fsdp/activations.h"
#include "interpose/activation_count.h"
#include "interpose/stored_activations.h"
#include "memory/byte_store.h"

namespace fsdp {

namespace {

using interpose::ActivationCount;
using PreviewedRun = std::function<torch::Tensor()>;

// In memory that LibTorch's allocators know nothing of, as they do of files.
class CopiedBytes final : public memory::StoredBytes, public std::enable_shared_from_this<CopiedBytes> {
 public:
  explicit CopiedBytes(const torch::Tensor& bytes) : device_(bytes.device()) {
    const torch::Tensor here = bytes.cpu();
    copy_.assign(here.const_data_ptr<uint8_t>(), here.const_data_ptr<uint8_t>() + here.numel());
  }
  torch::Tensor get() override {
    const auto keep = [self = shared_from_this()](void*) {};
    return torch::from_blob(copy_.data(), {static_cast<int64_t>(copy_.size())}, keep, torch::kUInt8).to(device_);
  }

 private:
  torch::Device device_;
  std::vector<uint8_t> copy_;
};

class CopyStore final : public memory::ByteStore {
 public:
  std::shared_ptr<memory::StoredBytes> put(const torch::Tensor& bytes) override {
    return std::make_shared<CopiedBytes>(bytes);
  }
};

// Counts the tensors that this keeper keeps during `run`.
void watch_run(const PreviewedRun& run, const std::shared_ptr<interpose::SavedTensorKeeper>& keeper) {
  const interpose::SavedTensorsScope scope(keeper.get());
  interpose::watch_saved_tensors(keeper);  // what checkpoints keep outside of their own scopes
  const torch::Tensor result = run();      // has a graph, maybe, and so what is kept for it
  interpose::watch_saved_tensors(nullptr);
}

std::vector<ActivationCount::Moment> kept_moments(const torch::nn::Module& module, const PreviewedRun& run,
                                                  bool stores) {
  std::vector<ActivationCount::Moment> moments;
  const auto count = std::make_shared<ActivationCount>(/*units=*/1, &moments);
  for (const torch::Tensor& parameter : module.parameters()) count->leave_out(parameter);
  auto keeper = interpose::counting_keeper(count, /*unit=*/0);
  if (stores) {
    interpose::StoredActivations::Rules rules{.staying = module.parameters()};
    if (!rules.staying.empty()) rules.device = rules.staying[0].device();
    for (const torch::Tensor& buffer : module.buffers()) rules.staying.push_back(buffer);
    keeper = interpose::storing_keeper(
        std::make_shared<interpose::StoredActivations>(std::make_shared<CopyStore>(), std::move(rules), count), keeper);
  }
  watch_run(run, keeper);
  count->end_moments();
  return moments;
}

}  // namespace

std::vector<KeptStorages> preview_activations(const torch::nn::Module& module, const PreviewedRun& run) {
  std::vector<KeptStorages> kept;
  for (auto& moment : kept_moments(module, run, /*stores=*/false)) kept.push_back(std::move(moment.in_memory));
  return kept;
}

std::vector<OffloadedMoment> preview_offload(const torch::nn::Module& module, const PreviewedRun& run) {
  std::vector<OffloadedMoment> kept;
  for (auto& moment : kept_moments(module, run, /*stores=*/true))
    kept.push_back({std::move(moment.in_memory), std::move(moment.elsewhere)});
  return kept;
}

}  // namespace fsdp
