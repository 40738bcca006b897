// A group whose full units and gradients lie on a device, and whose shards and sums lie in the host's memory, over a
// group of the same ranks on the CPU: a model that is offloaded to the CPU.
//
// A gather is the host's, and a copy to the device; of a reduction the gradients are copied to the host and added up
// there, so that the sums are those of the group on the CPU, to the bit. The calling thread waits for the copies. A
// unit that is one shard is copied as well.
#include <utility>

#include "base/error.h"
#include "collectives/backends.h"

namespace fsdp::collectives {

namespace {

class HostShardUnit final : public UnitCollectives {
 public:
  HostShardUnit(std::shared_ptr<Group> host, const GroupUnitSpec& spec)
      : host_(std::move(host)),
        full_numel_(spec.layout.full_numel()),
        dtype_(spec.dtype),
        unit_(host_->open_unit(spec)) {}

  Capabilities capabilities() const override {
    const Capabilities host = unit_->capabilities();
    return {.into_buffer = true, .one_sided = host.one_sided, .any_order = host.any_order, .joins = host.joins};
  }
  torch::Tensor shard() const override { return unit_->shard(); }
  UnitBytes bytes() const override;
  int64_t staging_numel(const layout::GradientLayout&) const override { return 0; }
  bool begin_write(Readers readers) override { return unit_->begin_write(readers); }
  void publish() override { unit_->publish(); }
  void begin_gather(const torch::Tensor& buffer, Order order) override;
  void* wait_gather() override;
  void release() override { buffer_ = torch::Tensor(); }
  void join_gather(const torch::Tensor&) override {
    unit_->join_gather(torch::empty({full_numel_}, torch::dtype(dtype_)));
  }
  bool gather_stalls() override { return unit_->gather_stalls(); }
  void begin_reduce(Gradients gradients, GradientSum& sum) override;
  Begun wait_begun() override { return unit_->wait_begun(); }
  void wait_reduce() override;
  void wait_sum() override { unit_->wait_sum(); }
  bool sum_is_complete() override { return unit_->sum_is_complete(); }

 private:
  std::shared_ptr<Group> host_;
  int64_t full_numel_;
  torch::ScalarType dtype_;
  torch::Tensor buffer_;
  torch::Tensor host_full_;       // of a gather under way, where the group on the CPU needs a buffer
  torch::Tensor host_gradients_;  // of the reduction under way
  std::unique_ptr<UnitCollectives> unit_;
};

UnitBytes HostShardUnit::bytes() const {
  UnitBytes bytes = unit_->bytes();
  if (host_gradients_.defined()) bytes.reductions += static_cast<int64_t>(host_gradients_.nbytes());
  return bytes;
}

void HostShardUnit::begin_gather(const torch::Tensor& buffer, Order order) {
  buffer_ = buffer;
  if (unit_->capabilities().into_buffer) host_full_ = torch::empty({full_numel_}, torch::dtype(dtype_));
  unit_->begin_gather(host_full_, order);
}

void* HostShardUnit::wait_gather() {
  torch::NoGradGuard no_grad;
  void* bytes = unit_->wait_gather();
  buffer_.copy_(torch::from_blob(bytes, {full_numel_}, torch::dtype(dtype_)));
  unit_->release();
  host_full_ = torch::Tensor();
  return buffer_.mutable_data_ptr();
}

void HostShardUnit::begin_reduce(Gradients gradients, GradientSum& sum) {
  torch::NoGradGuard no_grad;
  const torch::ScalarType dtype = gradients.values.scalar_type();
  host_gradients_ = host_->allocate(static_cast<int64_t>(gradients.values.nbytes())).view(dtype);
  host_gradients_.copy_(gradients.values);
  const torch::Tensor staging = torch::empty({unit_->staging_numel(*gradients.layout)}, torch::dtype(dtype));
  unit_->begin_reduce({gradients.layout, host_gradients_, std::move(gradients.present), staging}, sum);
}

void HostShardUnit::wait_reduce() {
  unit_->wait_reduce();
  host_gradients_ = torch::Tensor();
}

class HostShardGroup final : public Group {
 public:
  HostShardGroup(std::unique_ptr<Group> host, torch::Device device)
      : host_(std::move(host)), staged_(make_staged_group(host_, device)) {}

  int rank() const override { return host_->rank(); }
  int size() const override { return host_->size(); }
  std::unique_ptr<UnitCollectives> open_unit(const GroupUnitSpec& spec) override {
    return std::make_unique<HostShardUnit>(host_, spec);
  }
  torch::Tensor allocate(int64_t bytes) override { return staged_->allocate(bytes); }
  torch::Tensor allocate_sum(int64_t bytes) override { return host_->allocate(bytes); }
  int64_t buffer_bytes() const override { return host_->buffer_bytes(); }

  void note_call(const WorldCall* call) override { host_->note_call(call); }
  void barrier() override { host_->barrier(); }
  void all_reduce_(torch::Tensor& tensor) override { staged_->all_reduce_(tensor); }
  void broadcast_(torch::Tensor& tensor, int source) override { staged_->broadcast_(tensor, source); }
  std::vector<torch::Tensor> all_gather(const torch::Tensor& tensor, const std::string& purpose) override {
    return staged_->all_gather(tensor, purpose);
  }

 private:
  std::shared_ptr<Group> host_;
  std::unique_ptr<Group> staged_;  // for tensors on the device
};

}  // namespace

std::unique_ptr<Group> make_host_shard_group(std::unique_ptr<Group> host, torch::Device device) {
  return std::make_unique<HostShardGroup>(std::move(host), device);
}

}  // namespace fsdp::collectives
