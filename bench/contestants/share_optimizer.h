// The optimizer of programs that shard nothing.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <vector>

namespace contestant {

// Fused AdamW in fp32 on the first 1 / ranks of each parameter's elements; with 1 rank, on all. As mixed precision does
// it: if parameters have fewer bits, it steps fp32 copies of that share. Moments take twice the bytes of the share.
class ShareOptimizer {
 public:
  // `parameters` are contiguous, and are stepped in place.
  ShareOptimizer(std::vector<torch::Tensor> parameters, int64_t ranks, double lr);

  // Updates the parameters from their gradients, and removes the gradients.
  void step();

 private:
  torch::Tensor share_of(const torch::Tensor& tensor) const;

  std::vector<torch::Tensor> parameters_;
  std::vector<torch::Tensor> shares_, first_moments_, second_moments_, steps_;
  int64_t ranks_;
  double lr_;
};

}  // namespace contestant
