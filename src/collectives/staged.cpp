// A group whose tensors lie on a device, over any group of the same ranks on the CPU: for ranks that share a GPU, and
// where there is no NCCL.
//
// Everything goes through the host's memory, on the calling thread, which waits for the copies. Copied are published
// shards, full units at their wait, gradients, and the sum to which they are added. So the sums are those of the group
// on the CPU, to the bit.
#include <utility>

#include "collectives/backends.h"
#include "collectives/over_host.h"

namespace fsdp::collectives {

namespace {

class StagedUnit final : public UnitCollectives {
 public:
  StagedUnit(std::shared_ptr<Group> host, const GroupUnitSpec& spec, torch::Device device)
      : layout_(spec.layout),
        shard_(torch::zeros({spec.layout.shard_numel()}, torch::dtype(spec.dtype).device(device))),
        unit_(std::move(host), spec, /*pins=*/false) {}

  Capabilities capabilities() const override { return unit_.capabilities(copies()); }
  torch::Tensor shard() const override { return shard_; }
  UnitBytes bytes() const override;
  int64_t staging_numel(const layout::GradientLayout&) const override { return 0; }
  bool begin_write(Readers readers) override { return unit_->begin_write(readers); }
  void publish() override;
  void begin_gather(const torch::Tensor& buffer, Order order) override;
  void* wait_gather() override;
  void release() override { buffer_ = torch::Tensor(); }
  void join_gather(const torch::Tensor&) override { unit_.join_gather(); }
  bool gather_stalls() override { return unit_->gather_stalls(); }
  void begin_reduce(Gradients gradients, GradientSum& sum) override;
  Begun wait_begun() override { return unit_->wait_begun(); }
  void wait_reduce() override;
  void wait_sum() override;
  bool sum_is_complete() override { return shown_; }

 private:
  bool copies() const { return layout_.shards() > 1; }  // full units to the device
  void fetch(const torch::Tensor& sum);
  void show_sum();

  layout::UnitLayout layout_;
  torch::Tensor shard_;
  torch::Tensor buffer_;
  GradientSum* sum_ = nullptr;
  GradientSum host_sum_;
  bool shown_ = true;  // `sum_` has what `host_sum_` has
  HostUnit unit_;
};

UnitBytes StagedUnit::bytes() const {
  UnitBytes bytes = unit_->bytes();
  bytes.gathered += static_cast<int64_t>(unit_->shard().nbytes());
  if (host_sum_.values.defined()) bytes.reductions += static_cast<int64_t>(host_sum_.values.nbytes());
  return bytes;
}

void StagedUnit::publish() {
  torch::NoGradGuard no_grad;
  unit_->shard().copy_(shard_);
  unit_->publish();
}

void StagedUnit::begin_gather(const torch::Tensor& buffer, Order order) {
  buffer_ = buffer;
  unit_.begin_gather(order);
}

void* StagedUnit::wait_gather() {
  torch::NoGradGuard no_grad;
  const torch::Tensor full = unit_.wait_gather();
  if (copies()) buffer_.copy_(full);
  unit_.release();
  return copies() ? buffer_.mutable_data_ptr() : shard_.mutable_data_ptr();
}

// The sum goes on from what it holds: where replicas add to it still, that is here.
void StagedUnit::begin_reduce(Gradients gradients, GradientSum& sum) {
  torch::NoGradGuard no_grad;
  const torch::Tensor values = unit_.allocate(gradients.values.numel(), gradients.values.scalar_type());
  values.copy_(gradients.values);
  if (shown_) fetch(sum.values);
  sum_ = &sum;
  host_sum_.held = sum.held;
  unit_.begin_reduce({gradients.layout, values, std::move(gradients.present), {}}, host_sum_);
}

void StagedUnit::fetch(const torch::Tensor& sum) {
  torch::Tensor& values = host_sum_.values;
  if (!values.defined() || values.numel() != sum.numel()) values = unit_.allocate(sum.numel(), torch::kFloat32);
  values.copy_(sum);
}

void StagedUnit::wait_reduce() {
  unit_->wait_reduce();
  sum_->held = host_sum_.held;
  shown_ = false;
  if (layout_.shards() == layout_.ranks()) show_sum();
}

void StagedUnit::wait_sum() {
  unit_->wait_sum();
  if (!shown_) show_sum();
}

void StagedUnit::show_sum() {
  torch::NoGradGuard no_grad;
  sum_->values.copy_(host_sum_.values);
  shown_ = true;
}

class StagedGroup final : public GroupOverHost {
 public:
  using GroupOverHost::GroupOverHost;

  std::unique_ptr<UnitCollectives> open_unit(const GroupUnitSpec& spec) override {
    return std::make_unique<StagedUnit>(host(), spec, device());
  }
};

}  // namespace

std::unique_ptr<Group> make_staged_group(std::shared_ptr<Group> host, torch::Device device) {
  return std::make_unique<StagedGroup>(std::move(host), device);
}

}  // namespace fsdp::collectives
