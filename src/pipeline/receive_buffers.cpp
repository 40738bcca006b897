#include "pipeline/receive_buffers.h"

#include <algorithm>

namespace fsdp::pipeline {

torch::Tensor ReceiveBuffers::take(const std::vector<int64_t>& shape, torch::ScalarType dtype, torch::Device device) {
  const auto bytes = static_cast<size_t>(c10::multiply_integers(shape)) * c10::elementSize(dtype);
  const auto options = torch::dtype(dtype).device(device);
  const auto free = std::ranges::find_if(buffers_, [&](const Buffer& buffer) {
    return buffer.storage.use_count() == 1 && buffer.storage.nbytes() == bytes && buffer.storage.device() == device;
  });
  if (free != buffers_.end()) {
    free->taken = true;
    return torch::empty({0}, options).set_(free->storage, 0, shape);
  }
  torch::Tensor made = torch::empty(shape, options);
  buffers_.push_back({made.storage(), /*taken=*/true});
  return made;
}

void ReceiveBuffers::step_ends() {
  std::erase_if(buffers_, [](const Buffer& buffer) { return !buffer.taken; });
  for (Buffer& buffer : buffers_) buffer.taken = false;
}

int64_t ReceiveBuffers::bytes() const {
  int64_t bytes = 0;
  for (const Buffer& buffer : buffers_) bytes += static_cast<int64_t>(buffer.storage.nbytes());
  return bytes;
}

}  // namespace fsdp::pipeline
