// A group whose tensors lie on a device, over any group of the same ranks on the CPU: for ranks that share a GPU, and
// where there is no NCCL.
//
// Everything goes through the host's memory, on the calling thread, which waits for the copies. Copied are published
// shards, full units at their wait, gradients, and the sum to which they are added. So the sums are those of the group
// on the CPU, to the bit.
#include <utility>

#include "base/error.h"
#include "collectives/backends.h"

namespace fsdp::collectives {

namespace {

class StagedUnit final : public UnitCollectives {
 public:
  StagedUnit(std::shared_ptr<Group> host, const GroupUnitSpec& spec, torch::Device device)
      : group_(std::move(host)),
        layout_(spec.layout),
        dtype_(spec.dtype),
        shard_(torch::zeros({spec.layout.shard_numel()}, torch::dtype(spec.dtype).device(device))),
        unit_(group_->open_unit(spec)) {}

  Capabilities capabilities() const override {
    const Capabilities host = unit_->capabilities();
    return {.into_buffer = copies(), .one_sided = host.one_sided, .any_order = host.any_order, .joins = host.joins};
  }
  torch::Tensor shard() const override { return shard_; }
  UnitBytes bytes() const override;
  int64_t staging_numel(const layout::GradientLayout&) const override { return 0; }
  bool begin_write(Readers readers) override { return unit_->begin_write(readers); }
  void publish() override;
  void begin_gather(const torch::Tensor& buffer, Order order) override;
  void* wait_gather() override;
  void release() override { buffer_ = torch::Tensor(); }
  void join_gather(const torch::Tensor&) override {
    unit_->join_gather(torch::empty({layout_.full_numel()}, torch::dtype(dtype_)));
  }
  bool gather_stalls() override { return unit_->gather_stalls(); }
  void begin_reduce(Gradients gradients, GradientSum& sum) override;
  Begun wait_begun() override { return unit_->wait_begun(); }
  void wait_reduce() override;
  void wait_sum() override;
  bool sum_is_complete() override { return shown_; }

 private:
  bool copies() const { return layout_.shards() > 1; }  // full units to the device
  torch::Tensor host_memory(int64_t numel, torch::ScalarType dtype = torch::kFloat32) const {
    return group_->allocate(numel * static_cast<int64_t>(c10::elementSize(dtype))).view(dtype);
  }
  void fetch(const torch::Tensor& sum);
  void show_sum();

  std::shared_ptr<Group> group_;
  layout::UnitLayout layout_;
  torch::ScalarType dtype_;
  torch::Tensor shard_;
  torch::Tensor buffer_;
  torch::Tensor host_full_;  // of a gather under way, where the group on the CPU needs a buffer
  GradientSum* sum_ = nullptr;
  GradientSum host_sum_;
  bool shown_ = true;  // `sum_` has what `host_sum_` has
  std::unique_ptr<UnitCollectives> unit_;
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
  if (unit_->capabilities().into_buffer) host_full_ = torch::empty({layout_.full_numel()}, torch::dtype(dtype_));
  unit_->begin_gather(host_full_, order);
}

void* StagedUnit::wait_gather() {
  torch::NoGradGuard no_grad;
  void* bytes = unit_->wait_gather();
  if (copies()) buffer_.copy_(torch::from_blob(bytes, {layout_.full_numel()}, torch::dtype(dtype_)));
  unit_->release();
  host_full_ = torch::Tensor();
  return copies() ? buffer_.mutable_data_ptr() : shard_.mutable_data_ptr();
}

// The sum goes on from what it holds: where replicas add to it still, that is here.
void StagedUnit::begin_reduce(Gradients gradients, GradientSum& sum) {
  torch::NoGradGuard no_grad;
  const torch::ScalarType dtype = gradients.values.scalar_type();
  torch::Tensor values = host_memory(gradients.values.numel(), dtype);
  values.copy_(gradients.values);
  torch::Tensor staging = torch::empty({unit_->staging_numel(*gradients.layout)}, torch::dtype(dtype));
  if (shown_) fetch(sum.values);
  sum_ = &sum;
  host_sum_.held = sum.held;
  unit_->begin_reduce({gradients.layout, values, std::move(gradients.present), staging}, host_sum_);
}

void StagedUnit::fetch(const torch::Tensor& sum) {
  torch::Tensor& values = host_sum_.values;
  if (!values.defined() || values.numel() != sum.numel()) values = host_memory(sum.numel());
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

class StagedGroup final : public Group {
 public:
  StagedGroup(std::shared_ptr<Group> host, torch::Device device) : host_(std::move(host)), device_(device) {}

  int rank() const override { return host_->rank(); }
  int size() const override { return host_->size(); }
  std::unique_ptr<UnitCollectives> open_unit(const GroupUnitSpec& spec) override {
    return std::make_unique<StagedUnit>(host_, spec, device_);
  }
  int64_t buffer_bytes() const override { return host_->buffer_bytes(); }
  torch::Tensor allocate(int64_t bytes) override {
    return torch::empty({bytes}, torch::dtype(torch::kUInt8).device(device_));
  }

  void note_call(const WorldCall* call) override { host_->note_call(call); }
  void compare(CallFacts* facts) override { host_->compare(facts); }
  void barrier() override { host_->barrier(); }
  void all_reduce_(torch::Tensor& tensor) override {
    in_host_memory(tensor, [&](torch::Tensor& values) { host_->all_reduce_(values); });
  }
  void broadcast_(torch::Tensor& tensor, int source) override {
    in_host_memory(tensor, [&](torch::Tensor& values) { host_->broadcast_(values, source); });
  }
  std::vector<torch::Tensor> all_gather(const torch::Tensor& tensor, const std::string& purpose) override {
    std::vector<torch::Tensor> all = host_->all_gather(tensor.detach().cpu(), purpose);
    for (torch::Tensor& one : all) one = one.to(tensor.device());
    return all;
  }

 private:
  template <typename Exchange>
  void in_host_memory(torch::Tensor& tensor, Exchange&& exchange) {
    torch::NoGradGuard no_grad;
    torch::Tensor values = tensor.detach().cpu();  // itself, where it is there already
    exchange(values);
    if (!tensor.is_cpu()) tensor.copy_(values);
  }

  std::shared_ptr<Group> host_;
  torch::Device device_;
};

}  // namespace

std::unique_ptr<Group> make_staged_group(std::shared_ptr<Group> host, torch::Device device) {
  return std::make_unique<StagedGroup>(std::move(host), device);
}

}  // namespace fsdp::collectives
