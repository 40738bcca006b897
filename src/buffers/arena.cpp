#include "buffers/arena.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <utility>

namespace fsdp::buffers {

bool poisons() {
#ifdef FSDP_POISON
  return true;
#else
  return false;
#endif
}

void poison(const torch::Tensor& buffer) {
  if (poisons()) buffer.view(torch::kUInt8).fill_(0xff);
}

Allocate allocate_plain(torch::Device device) {
  return [=](int64_t bytes) { return torch::empty({bytes}, torch::dtype(torch::kUInt8).device(device)); };
}

torch::Tensor Pool::at(int index, int64_t numel, torch::ScalarType dtype) {
  while (static_cast<int>(buffers_.size()) <= index) buffers_.emplace_back();
  torch::Tensor& buffer = buffers_[index];
  const int64_t bytes = numel * static_cast<int64_t>(c10::elementSize(dtype));
  if (!buffer.defined() || buffer.numel() < bytes) {
    c10::InferenceMode outlives_it(false);  // a buffer made in an evaluation serves the training too
    buffer.reset();
    buffer = allocate_(index < shared_ ? std::max(bytes, shared_bytes_) : bytes);
    poison(buffer);
  }
  return buffer.slice(0, 0, bytes).view(dtype);
}

void Pool::take_back(int index, const torch::Tensor& memory) {
  while (static_cast<int>(buffers_.size()) <= index) buffers_.emplace_back();
  buffers_[index] = memory.view(torch::kUInt8);
  poison(buffers_[index]);
}

void Pool::move(int from, int to) {
  while (static_cast<int>(buffers_.size()) <= to) buffers_.emplace_back();
  buffers_[to] = std::exchange(buffers_[from], torch::Tensor());
}

int64_t Pool::bytes() const {
  int64_t bytes = 0;
  for (const torch::Tensor& buffer : buffers_) {
    if (buffer.defined()) bytes += static_cast<int64_t>(buffer.nbytes());
  }
  return bytes;
}

}  // namespace fsdp::buffers
