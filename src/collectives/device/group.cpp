#include "collectives/device/group.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "collectives/device/unit.h"
#include "collectives/over_host.h"
#include "collectives/reduction.h"

namespace fsdp::collectives::device {

namespace {

// The most by which a slice's end may lie behind the unit's gradients, per rank (layout/unit_layout.h).
constexpr int64_t kSliceRoundingBytes = (layout::kAlignmentNumel + 1) * static_cast<int64_t>(sizeof(float));
// The part of each rank's tensor that a sum of whole tensors takes at once.
constexpr int64_t kPartBytes = int64_t{16} << 20;

// The bytes of a contiguous tensor of any dtype.
torch::Tensor bytes_of(const torch::Tensor& tensor) { return tensor.view({-1}).view(torch::kUInt8); }

// Tensors on the CPU are the host's.
class DeviceOperations final : public TensorOperations {
 public:
  explicit DeviceOperations(DeviceContext& context) : context_(context), by_host_(context.host(), [] {}) {}

  void compare(CallFacts* facts) override { context_.host().tensors().compare(facts); }
  void barrier() override {
    context_.guarded(message_prefix(), "barrier", [&] { context_.host().barrier(); });
  }
  void all_reduce_(torch::Tensor& tensor, ReduceOp op) override;
  void broadcast_(torch::Tensor& tensor, int source) override;
  std::vector<torch::Tensor> all_gather(const torch::Tensor& tensor, const std::string& purpose) override;
  bool exchange(const std::vector<torch::Tensor>& to, const std::vector<torch::Tensor>& from,
                const std::string& purpose) override;
  // By the host: c10d connects two devices in their first message, which both ranks then wait for, and NCCL matches no
  // tags.
  std::unique_ptr<TensorMessage> send(const torch::Tensor& tensor, int peer, int tag) override {
    return context_.guarded(message_prefix(), "send", [&] { return by_host_.send(tensor, peer, tag); });
  }
  std::unique_ptr<TensorMessage> receive_(torch::Tensor& tensor, int peer, int tag) override {
    return context_.guarded(message_prefix(), "receive", [&] { return by_host_.receive_(tensor, peer, tag); });
  }

 private:
  bool on_device(const torch::Tensor& tensor) const { return tensor.device() == context_.device(); }
  // Every rank announces its next operation on the device, where a difference between ranks would not be found. False
  // if the facts of the call differ.
  bool agree(const std::string& purpose) { return !context_.host().all_gather(torch::empty({0}), purpose).empty(); }
  std::vector<torch::Tensor> gather_parts(const torch::Tensor& tensor);
  c10::intrusive_ptr<c10d::Work> begun(c10::intrusive_ptr<c10d::Work> work) {
    return context_.begun(message_prefix(), "exchange of whole tensors", std::move(work));
  }

  DeviceContext& context_;
  OperationsOverHost by_host_;
};

class DeviceGroup final : public Group {
 public:
  DeviceGroup(std::unique_ptr<Group> host, Connect connect, torch::Device device, std::chrono::milliseconds timeout)
      : context_(std::make_shared<DeviceContext>(std::move(host), std::move(connect), device, timeout)) {}

  int rank() const override { return context_->host().rank(); }
  int size() const override { return context_->host().size(); }
  int name_of(int rank) const override { return context_->host().name_of(rank); }
  std::unique_ptr<UnitCollectives> open_unit(const GroupUnitSpec& spec) override {
    return std::make_unique<DeviceUnit>(context_, spec);
  }
  torch::Tensor allocate(int64_t bytes) override;
  torch::Tensor allocate_sum(int64_t bytes, memory::Backing& backing) override {
    return backing.zeros(bytes, torch::dtype(torch::kUInt8).device(context_->device()));
  }
  bool reductions_as_before() override { return context_->backwards().as_before(); }
  std::vector<int> reductions_end(bool everywhere, bool as_before) override;
  void ranks_differ(bool differ) override { context_->ranks_differ(differ); }

  void note_call(const WorldCall* call) override { context_->host().note_call(call); }
  TensorOperations& tensors() override { return tensors_; }

 private:
  std::shared_ptr<DeviceContext> context_;
  DeviceOperations tensors_{*context_};
};

// A reduce-scatter takes slices of equal lengths, the last ones with nothing behind the unit's end.
torch::Tensor DeviceGroup::allocate(int64_t bytes) {
  const auto options = torch::dtype(torch::kUInt8).device(context_->device());
  return torch::empty({bytes + size() * kSliceRoundingBytes}, options).narrow(0, 0, bytes);
}

std::vector<int> DeviceGroup::reductions_end(bool everywhere, bool as_before) {
  return context_->guarded(message_prefix(), "end of backward",
                           [&] { return context_->reductions_end(everywhere, as_before); });
}

std::vector<torch::Tensor> DeviceOperations::gather_parts(const torch::Tensor& tensor) {
  torch::NoGradGuard no_grad;
  torch::Tensor own = bytes_of(tensor.detach());
  torch::Tensor all = torch::empty({context_.host().size() * own.numel()}, own.options());
  if (own.numel() > 0) begun(context_.everyone()->_allgather_base(all, own))->wait();
  std::vector<torch::Tensor> parts;
  for (int rank = 0; rank < context_.host().size(); ++rank)
    parts.push_back(all.narrow(0, rank * own.numel(), own.numel()).view(tensor.scalar_type()).view(tensor.sizes()));
  return parts;
}

std::vector<torch::Tensor> DeviceOperations::all_gather(const torch::Tensor& tensor, const std::string& purpose) {
  return context_.guarded(message_prefix(), "all_gather", [&] {
    if (!on_device(tensor)) return context_.host().all_gather(tensor, purpose);
    return agree(purpose) ? gather_parts(tensor) : std::vector<torch::Tensor>();
  });
}

void DeviceOperations::broadcast_(torch::Tensor& tensor, int source) {
  context_.guarded(message_prefix(), "broadcast", [&] {
    if (!on_device(tensor)) return context_.host().broadcast_(tensor, source);
    if (!agree("enters a broadcast")) return;
    std::vector<torch::Tensor> bytes{bytes_of(tensor.detach())};
    c10d::BroadcastOptions options;
    options.rootRank = source;
    if (bytes[0].numel() > 0) begun(context_.everyone()->broadcast(bytes, options))->wait();
  });
}

// Gathered and added up here, so that the sum is in rank order.
void DeviceOperations::all_reduce_(torch::Tensor& tensor, ReduceOp op) {
  context_.guarded(message_prefix(), "all_reduce", [&] {
    if (!on_device(tensor)) return context_.host().all_reduce_(tensor, op);
    torch::NoGradGuard no_grad;
    if (!agree("enters an all_reduce")) return;
    const torch::Tensor flat = tensor.detach().view({-1});
    const auto part_numel = kPartBytes / static_cast<int64_t>(flat.element_size());
    for (const torch::Tensor& part : flat.split(part_numel)) part.copy_(reduce_in_order(gather_parts(part), op));
  });
}

// A rank has tensors of the device if the others have: a call has all its tensors on one device.
bool DeviceOperations::exchange(const std::vector<torch::Tensor>& to, const std::vector<torch::Tensor>& from,
                                const std::string& purpose) {
  const auto are_here = [this](const torch::Tensor& tensor) { return tensor.defined() && on_device(tensor); };
  return context_.guarded(message_prefix(), "exchange", [&] {
    if (!std::ranges::any_of(to, are_here) && !std::ranges::any_of(from, are_here))
      return context_.host().tensors().exchange(to, from, purpose);
    torch::NoGradGuard no_grad;
    if (!agree(purpose)) return false;
    const auto is_exchanged = [&](const torch::Tensor& tensor, size_t rank) {
      return tensor.defined() && static_cast<int>(rank) != context_.host().rank();
    };
    std::vector<torch::Tensor> sent{torch::empty({0}, torch::dtype(torch::kUInt8).device(context_.device()))};
    std::vector<int64_t> sent_bytes(to.size()), received_bytes(from.size());
    for (size_t rank = 0; rank < to.size(); ++rank) {
      if (is_exchanged(from[rank], rank)) received_bytes[rank] = static_cast<int64_t>(from[rank].nbytes());
      if (!is_exchanged(to[rank], rank)) continue;
      sent_bytes[rank] = static_cast<int64_t>(to[rank].nbytes());
      sent.push_back(bytes_of(to[rank].detach()));
    }
    torch::Tensor input = torch::cat(sent);
    torch::Tensor output = torch::empty({std::reduce(received_bytes.begin(), received_bytes.end())}, input.options());
    std::vector<int64_t> output_sizes = received_bytes;  // process groups may change their arguments
    begun(context_.everyone()->alltoall_base(output, input, output_sizes, sent_bytes))->wait();
    const std::vector<torch::Tensor> received = output.split_with_sizes(received_bytes);
    for (size_t rank = 0; rank < from.size(); ++rank) {
      if (is_exchanged(from[rank], rank)) bytes_of(from[rank].detach()).copy_(received[rank]);
    }
    return true;
  });
}

}  // namespace

std::unique_ptr<Group> make_group(std::unique_ptr<Group> host, Connect connect, torch::Device device,
                                  std::chrono::milliseconds timeout) {
  return std::make_unique<DeviceGroup>(std::move(host), std::move(connect), device, timeout);
}

}  // namespace fsdp::collectives::device
