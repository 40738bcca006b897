#include "pipeline/links.h"

#include <array>
#include <cstring>
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
  };
  int64_t count = 0;
  std::array<Entry, kMostTensors> entries = {};
};

torch::Tensor empty_description() { return torch::empty(sizeof(Description), torch::kUInt8); }

torch::Tensor described(const Tensors& tensors) {
  Description description{.count = std::ssize(tensors)};
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].defined()) continue;
    description.entries[i] = {1, tensors[i].requires_grad(), collectives::header_of(tensors[i])};
  }
  torch::Tensor result = empty_description();
  std::memcpy(result.mutable_data_ptr(), &description, sizeof description);
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
    const auto& [defined, requires_grad, header] = description.entries[i];
    if (defined == 0) continue;
    const torch::Device device = header.on_cpu != 0 ? torch::Device(torch::kCPU) : axis_->device();
    tensors[i] = buffers_->take(header.shape(), header.scalar_type(), device);
    arrivals.push_back(axis_->receive_async_(tensors[i], peer_, tag_ + 1));
  }
  for (Work& arrival : arrivals) arrival.wait();
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (description.entries[i].requires_grad != 0) tensors[i].requires_grad_();
  }
  return tensors;
}

void Links::send_one(const torch::Tensor& tensor, int peer, int tag) {
  sent_.push_back({tensor, axis_.send_async(tensor, peer, tag)});
}

void Links::send(const Tensors& tensors, int peer, int tag) {
  std::erase_if(sent_, [](const Sent& sent) { return sent.work.done(); });
  send_one(described(tensors), peer, tag);
  for (const torch::Tensor& tensor : tensors) {
    if (tensor.defined()) send_one(tensor.detach(), peer, tag + 1);
  }
}

void Links::finish() {
  for (Sent& sent : sent_) sent.work.wait();
  sent_.clear();
  buffers_.step_ends();
}

}  // namespace fsdp::pipeline
