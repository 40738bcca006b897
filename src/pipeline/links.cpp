#include "pipeline/links.h"

#include <algorithm>
#include <utility>

#include "pipeline/memory_order.h"

namespace fsdp::pipeline {

namespace {

MemoryOrder order_of(const ListDescription::Entry& entry) {
  const std::vector<int64_t> shape = entry.header.shape();
  return {shape, {entry.strides.data(), shape.size()}};
}

// A kernel's bits may depend on strides and alignment, so the tensor has those of the sender's. `arrived`: its values
// in the order of its memory.
torch::Tensor in_place_of(ReceiveBuffers& buffers, const torch::Tensor& arrived, const ListDescription::Entry& entry) {
  const MemoryOrder order = order_of(entry);
  const std::vector<int64_t> shape = entry.header.shape();
  const auto as_sent = [&](const torch::Tensor& memory, int64_t offset) {
    return torch::empty({0}, memory.options())
        .set_(memory.storage(), offset, shape, {entry.strides.data(), shape.size()});
  };
  if (order.extent() == arrived.numel() && misalignment_of(arrived) == entry.misaligned)
    return as_sent(arrived, arrived.storage_offset());
  const torch::Tensor memory =
      buffers.take({order.extent() + entry.misaligned}, arrived.scalar_type(), arrived.device());
  const torch::Tensor result = as_sent(memory, entry.misaligned);
  const torch::NoGradGuard no_grad;
  order.in_order(result).copy_(arrived);
  return result;
}

}  // namespace

Arrival::Arrival(World& axis, ReceiveBuffers& buffers, Source& source)
    : axis_(&axis), buffers_(&buffers), source_(&source) {
  if (source.untaken++ == 0) begin();
}

void Arrival::begin() {
  first_ = buffers_->take({source_->next_bytes}, torch::kUInt8, torch::kCPU);
  came_ = axis_->receive_async_(first_, source_->peer, source_->tag);
}

Tensors Arrival::take() {
  if (!came_) begin();
  came_->wait();
  const ListDescription description = description_in(first_);
  source_->next_bytes = description.next_bytes();
  --source_->untaken;
  Tensors tensors = receive_values(description);
  for (size_t i = 0; i < tensors.size(); ++i) {
    const ListDescription::Entry& entry = description.entries[i];
    if (tensors[i].defined()) tensors[i] = in_place_of(*buffers_, tensors[i], entry);
    if (entry.requires_grad != 0) tensors[i].requires_grad_();
  }
  return tensors;
}

// Each in the order of its memory.
Tensors Arrival::receive_values(const ListDescription& description) {
  Tensors values(description.count);
  std::vector<Work> arrivals;
  for (size_t i = 0; i < values.size(); ++i) {
    const ListDescription::Entry& entry = description.entries[i];
    if (entry.defined == 0) continue;
    const std::vector<int64_t> sizes = order_of(entry).sizes();
    if (description.holds_values != 0) {
      values[i] = values_in(first_, entry, sizes);
      continue;
    }
    const torch::Device device = entry.header.on_cpu != 0 ? torch::Device(torch::kCPU) : axis_->device();
    values[i] = buffers_->take(sizes, entry.header.scalar_type(), device);
    arrivals.push_back(axis_->receive_async_(values[i], source_->peer, source_->tag + 1));
  }
  for (Work& arrival : arrivals) arrival.wait();
  return values;
}

Arrival Links::receive(int peer, int tag) {
  Source& source = sources_.try_emplace({peer, tag}, Source{.peer = peer, .tag = tag}).first->second;
  return {axis_, buffers_, source};
}

void Links::send_one(const torch::Tensor& tensor, int peer, int tag) {
  sent_.push_back({tensor, axis_.send_async(tensor, peer, tag)});
}

void Links::send(const Tensors& tensors, int peer, int tag) {
  std::erase_if(sent_, [](const Sent& sent) { return sent.work.done(); });
  Tensors plain = tensors, values(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].defined()) continue;
    plain[i] = tensors[i].resolve_conj().resolve_neg();
    const torch::Tensor alone = plain[i].detach();
    values[i] = MemoryOrder(alone.sizes(), alone.strides()).in_order(alone).contiguous();
  }
  ListDescription description = describe(plain);
  int64_t& bytes = next_bytes_.try_emplace({peer, tag}, kDescriptionBytes).first->second;
  send_one(first_message(description, values, bytes), peer, tag);
  bytes = description.next_bytes();
  for (size_t i = 0; description.holds_values == 0 && i < values.size(); ++i) {
    if (values[i].defined()) send_one(values[i], peer, tag + 1);
  }
}

void Links::finish() {
  for (Sent& sent : sent_) sent.work.wait();
  sent_.clear();
  buffers_.step_ends();
}

}  // namespace fsdp::pipeline
