#include "buffers/arena.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <limits>

namespace fsdp::buffers {

bool poisons() {
#ifdef FSDP_POISON
  return true;
#else
  return false;
#endif
}

void poison(torch::Tensor buffer) {
  if (poisons()) buffer.fill_(std::numeric_limits<float>::quiet_NaN());
}

torch::Tensor Pool::at(int index, int64_t numel) {
  while (static_cast<int>(buffers_.size()) <= index) buffers_.emplace_back();
  if (!buffers_[index].defined()) {
    c10::InferenceMode outlives_it(false);  // a buffer made in an evaluation serves the training too
    buffers_[index] = torch::empty({std::max(numel, shared_numel_)}, torch::kFloat32);
    poison(buffers_[index]);
  }
  return buffers_[index].slice(0, 0, numel);
}

int64_t Pool::bytes() const {
  int64_t bytes = 0;
  for (const torch::Tensor& buffer : buffers_) bytes += buffer.defined() ? buffer.nbytes() : 0;
  return bytes;
}

}  // namespace fsdp::buffers
