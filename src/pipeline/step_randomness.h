// Random numbers of a step: they follow from the step's number from the default generator, the micro-batch and the
// block, and not from the rank.
#pragma once

#include <ATen/core/Generator.h>
#include <torch/types.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace fsdp::pipeline {

// Draws the step's number from the CPU's default generator. At its end the default generators of the CPU and the device
// are as after this draw.
class StepRandomness {
 public:
  explicit StepRandomness(torch::Device device);
  ~StepRandomness();
  StepRandomness(const StepRandomness&) = delete;
  StepRandomness& operator=(const StepRandomness&) = delete;

  uint64_t number() const { return number_; }
  // The number of another rank, instead of this one's.
  void set_number(uint64_t number) { number_ = number; }
  // Seeds the default generators for a block's forward. The loss counts as the block behind the last.
  void seed(int64_t micro_batch, int block) const;

 private:
  uint64_t number_;
  std::vector<std::pair<at::Generator, torch::Tensor>> states_;
};

}  // namespace fsdp::pipeline
