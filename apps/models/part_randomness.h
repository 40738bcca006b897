// Random numbers of the parts of a divided model.
#pragma once

#include <ATen/core/Generator.h>
#include <torch/types.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "models/division.h"

namespace models {

// A part's numbers follow from one number of the CPU's default generator, which has the same state on all ranks of the
// axis, and from the part. At the end, the default generators of the CPU and the device are as after that one draw.
class PartRandomness {
 public:
  explicit PartRandomness(const torch::Device& device);
  ~PartRandomness();
  PartRandomness(const PartRandomness&) = delete;
  PartRandomness& operator=(const PartRandomness&) = delete;

  void seed(int part) const;  // among all parts

 private:
  uint64_t number_;
  std::vector<std::pair<at::Generator, torch::Tensor>> states_;
};

// torch::dropout of activations between the blocks: whole ones, which are equal on all ranks, or slices of the
// sequence [batch, length, width]. Draws the same numbers on any number of ranks.
torch::Tensor dropout_between(const torch::Tensor& x, double share, bool is_training, const Division& division);

}  // namespace models
