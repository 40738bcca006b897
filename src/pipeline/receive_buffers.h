// Memory for tensors that arrive. It is used again once all its holders, such as a micro-batch's graph, are gone. So
// the first step allocates what a schedule needs, and later steps with the same shapes allocate none.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

namespace fsdp::pipeline {

class ReceiveBuffers {
 public:
  // A contiguous tensor without values, whose memory has no other holder.
  torch::Tensor take(const std::vector<int64_t>& shape, torch::ScalarType dtype, torch::Device device);
  // Frees memory that this step did not take.
  void step_ends();
  int64_t bytes() const;

 private:
  struct Buffer {
    c10::Storage storage;
    bool taken;  // in this step
  };

  std::vector<Buffer> buffers_;
};

}  // namespace fsdp::pipeline
