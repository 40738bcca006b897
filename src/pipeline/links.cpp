#include "pipeline/links.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "collectives/tensor_header.h"

namespace fsdp::pipeline {

namespace {

using collectives::TensorHeader;

// Plain data.
struct Description {
  struct Entry {
    int64_t defined = 0;
    int64_t requires_grad = 0;
    TensorHeader header = {};
    std::array<int64_t, TensorHeader::kMostDims> strides = {};
    int64_t misaligned = 0;  // elements behind an aligned address
  };
  int64_t count = 0;
  std::array<Entry, kMostTensors> entries = {};
};

// LibTorch aligns its memory so.
constexpr int64_t kAlignedBytes = 64;

int64_t misalignment_of(const torch::Tensor& tensor) {
  const auto bytes = static_cast<int64_t>(reinterpret_cast<uintptr_t>(tensor.const_data_ptr()) % kAlignedBytes);
  return bytes / static_cast<int64_t>(tensor.element_size());
}

// The values of a tensor in the order of its memory. Both ranks compute it from shape and strides.
struct MemoryOrder {
  std::vector<int64_t> dims;   // from the largest stride to the least
  std::vector<int64_t> sizes;  // in the tensor's order, 1 where a stride is 0
  int64_t extent = 1;          // elements from the first to the last

  MemoryOrder(at::IntArrayRef shape, at::IntArrayRef strides) : dims(shape.size()), sizes(shape.vec()) {
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (strides[i] == 0) sizes[i] = std::min<int64_t>(sizes[i], 1);
      extent = sizes[i] == 0 ? 0 : extent + (sizes[i] - 1) * strides[i];
      if (extent == 0) break;
    }
    std::iota(dims.begin(), dims.end(), 0);
    std::ranges::stable_sort(dims, std::greater(), [&](int64_t dim) { return strides[dim]; });
  }
  // The tensor's elements, each once.
  torch::Tensor in_order(torch::Tensor tensor) const {
    for (size_t i = 0; i < sizes.size(); ++i) tensor = tensor.narrow(static_cast<int64_t>(i), 0, sizes[i]);
    return tensor.permute(dims);
  }
};

torch::Tensor empty_description() { return torch::empty(sizeof(Description), torch::kUInt8); }

torch::Tensor described(const Tensors& tensors) {
  Description description{.count = std::ssize(tensors)};
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].defined()) continue;
    Description::Entry& entry = description.entries[i];
    entry = {1, tensors[i].requires_grad(), collectives::header_of(tensors[i]), {}, misalignment_of(tensors[i])};
    std::ranges::copy(tensors[i].strides(), entry.strides.begin());
  }
  torch::Tensor result = empty_description();
  std::memcpy(result.mutable_data_ptr(), &description, sizeof description);
  return result;
}

// A kernel's bits may depend on strides and alignment, so the tensor has those of the sender's.
torch::Tensor in_place_of(ReceiveBuffers& buffers, const torch::Tensor& arrived, const Description::Entry& entry) {
  const std::vector<int64_t> shape = entry.header.shape();
  const at::IntArrayRef strides(entry.strides.data(), shape.size());
  const MemoryOrder order(shape, strides);
  const auto as_sent = [&](const torch::Tensor& memory, int64_t offset) {
    return torch::empty({0}, memory.options()).set_(memory.storage(), offset, shape, strides);
  };
  if (order.extent == arrived.numel() && entry.misaligned == 0) return as_sent(arrived, 0);
  const torch::Tensor memory = buffers.take({order.extent + entry.misaligned}, arrived.scalar_type(), arrived.device());
  const torch::Tensor result = as_sent(memory, entry.misaligned);
  const torch::NoGradGuard no_grad;
  order.in_order(result).copy_(arrived);
  return result;
}

}  // namespace

Arrival::Arrival(World& axis, ReceiveBuffers& buffers, int peer, int tag)
    : axis_(&axis),
      buffers_(&buffers),
      peer_(peer),
      tag_(tag),
      description_(empty_description()),
      described_(axis.receive_async_(description_, peer, tag)) {}

Tensors Arrival::take() {
  described_.wait();
  Description description;
  std::memcpy(&description, description_.const_data_ptr(), sizeof description);
  Tensors tensors(description.count);
  std::vector<Work> arrivals;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto& [defined, requires_grad, header, strides, misaligned] = description.entries[i];
    if (defined == 0) continue;
    const torch::Device device = header.on_cpu != 0 ? torch::Device(torch::kCPU) : axis_->device();
    const std::vector<int64_t> shape = header.shape();
    const MemoryOrder order(shape, {strides.data(), shape.size()});
    std::vector<int64_t> sizes;
    for (const int64_t dim : order.dims) sizes.push_back(order.sizes[dim]);
    tensors[i] = buffers_->take(sizes, header.scalar_type(), device);
    arrivals.push_back(axis_->receive_async_(tensors[i], peer_, tag_ + 1));
  }
  for (Work& arrival : arrivals) arrival.wait();
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].defined()) tensors[i] = in_place_of(*buffers_, tensors[i], description.entries[i]);
    if (description.entries[i].requires_grad != 0) tensors[i].requires_grad_();
  }
  return tensors;
}

void Links::send_one(const torch::Tensor& tensor, int peer, int tag) {
  sent_.push_back({tensor, axis_.send_async(tensor, peer, tag)});
}

void Links::send(const Tensors& tensors, int peer, int tag) {
  std::erase_if(sent_, [](const Sent& sent) { return sent.work.done(); });
  Tensors plain = tensors;
  for (torch::Tensor& tensor : plain) {
    if (tensor.defined()) tensor = tensor.resolve_conj().resolve_neg();
  }
  send_one(described(plain), peer, tag);
  for (const torch::Tensor& tensor : plain) {
    if (!tensor.defined()) continue;
    const torch::Tensor values = tensor.detach();
    send_one(MemoryOrder(values.sizes(), values.strides()).in_order(values).contiguous(), peer, tag + 1);
  }
}

void Links::finish() {
  for (Sent& sent : sent_) sent.work.wait();
  sent_.clear();
  buffers_.step_ends();
}

}  // namespace fsdp::pipeline
