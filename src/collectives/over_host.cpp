#include "collectives/over_host.h"

#include <utility>

namespace fsdp::collectives {

HostUnit::HostUnit(std::shared_ptr<Group> group, const GroupUnitSpec& spec, bool pins)
    : group_(std::move(group)),
      full_numel_(spec.layout.full_numel()),
      dtype_(spec.dtype),
      pins_(pins),
      unit_(group_->open_unit(spec)) {}

Capabilities HostUnit::capabilities(bool into_buffer) const {
  const Capabilities host = unit_->capabilities();
  return {.into_buffer = into_buffer, .one_sided = host.one_sided, .any_order = host.any_order, .joins = host.joins};
}

torch::Tensor HostUnit::allocate(int64_t numel, torch::ScalarType dtype) const {
  return group_->allocate(numel * static_cast<int64_t>(c10::elementSize(dtype))).view(dtype);
}

torch::Tensor HostUnit::full_unit() const {
  return torch::empty({full_numel_}, torch::dtype(dtype_).pinned_memory(pins_));
}

void HostUnit::begin_gather(Order order) {
  if (unit_->capabilities().into_buffer) full_ = full_unit();
  unit_->begin_gather(full_, order);
}

torch::Tensor HostUnit::wait_gather() {
  return torch::from_blob(unit_->wait_gather(), {full_numel_}, torch::dtype(dtype_));
}

void HostUnit::release() {
  unit_->release();
  full_ = torch::Tensor();
}

void HostUnit::join_gather() { unit_->join_gather(torch::empty({full_numel_}, torch::dtype(dtype_))); }

void HostUnit::begin_reduce(Gradients gradients, GradientSum& sum) {
  gradients.staging =
      torch::empty({unit_->staging_numel(*gradients.layout)}, torch::dtype(gradients.values.scalar_type()));
  unit_->begin_reduce(std::move(gradients), sum);
}

torch::Tensor GroupOverHost::allocate(int64_t bytes) {
  return torch::empty({bytes}, torch::dtype(torch::kUInt8).device(device_));
}

namespace {

// Memory of the host for the tensor's values: its own, if it is there already.
torch::Tensor in_host_memory(const torch::Tensor& tensor) {
  if (!tensor.defined() || tensor.is_cpu()) return tensor;
  return torch::empty(tensor.sizes(), tensor.options().device(torch::kCPU));
}

}  // namespace

template <typename Exchange>
void OperationsOverHost::by_host_memory(torch::Tensor& tensor, Exchange&& exchange) {
  torch::NoGradGuard no_grad;
  before_wait_();
  torch::Tensor values = tensor.detach().cpu();  // itself, where it is there already
  exchange(values);
  if (!tensor.is_cpu()) tensor.copy_(values);
}

void OperationsOverHost::barrier() {
  before_wait_();
  host_.barrier();
}

void OperationsOverHost::all_reduce_(torch::Tensor& tensor, ReduceOp op) {
  by_host_memory(tensor, [&](torch::Tensor& values) { host_.all_reduce_(values, op); });
}

void OperationsOverHost::broadcast_(torch::Tensor& tensor, int source) {
  by_host_memory(tensor, [&](torch::Tensor& values) { host_.broadcast_(values, source); });
}

std::vector<torch::Tensor> OperationsOverHost::all_gather(const torch::Tensor& tensor, const std::string& purpose) {
  before_wait_();
  std::vector<torch::Tensor> all = host_.all_gather(tensor.detach().cpu(), purpose);
  for (torch::Tensor& one : all) one = one.to(tensor.device());
  return all;
}

bool OperationsOverHost::exchange(const std::vector<torch::Tensor>& to, const std::vector<torch::Tensor>& from,
                                  const std::string& purpose) {
  torch::NoGradGuard no_grad;
  before_wait_();
  std::vector<torch::Tensor> sent(to.size()), received(from.size());
  const auto own = static_cast<size_t>(rank_);
  for (size_t rank = 0; rank < to.size(); ++rank) {
    if (rank == own) continue;
    if (to[rank].defined()) sent[rank] = to[rank].detach().cpu();
    received[rank] = in_host_memory(from[rank]);
  }
  if (!host_.exchange(sent, received, purpose)) return false;
  for (size_t rank = 0; rank < from.size(); ++rank) {
    if (rank != own && !received[rank].is_same(from[rank])) from[rank].detach().copy_(received[rank]);
  }
  return true;
}

namespace {

// One that comes by the host, and then goes to the device.
class MessageOverHost final : public TensorMessage {
 public:
  MessageOverHost(std::unique_ptr<TensorMessage> message, torch::Tensor values, torch::Tensor tensor)
      : message_(std::move(message)), values_(std::move(values)), tensor_(std::move(tensor)) {}

  void wait() override {
    message_->wait();
    torch::NoGradGuard no_grad;
    if (tensor_.defined()) tensor_.detach().copy_(values_);
    tensor_.reset();
  }
  bool is_over() override { return message_->is_over(); }

 private:
  std::unique_ptr<TensorMessage> message_;
  torch::Tensor values_, tensor_;  // `tensor_`: undefined if it has its values, or sends them
};

}  // namespace

std::unique_ptr<TensorMessage> OperationsOverHost::send(const torch::Tensor& tensor, int peer, int tag) {
  before_wait_();
  return host_.send(tensor.detach().cpu(), peer, tag);
}

std::unique_ptr<TensorMessage> OperationsOverHost::receive_(torch::Tensor& tensor, int peer, int tag) {
  before_wait_();
  if (tensor.is_cpu()) return host_.receive_(tensor, peer, tag);
  torch::Tensor values = in_host_memory(tensor);
  return std::make_unique<MessageOverHost>(host_.receive_(values, peer, tag), values, tensor);
}

}  // namespace fsdp::collectives
