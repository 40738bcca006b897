// Measures how long each block's forward and backward take, in one step.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "fsdp/pipeline.h"

namespace fsdp::pipeline {

// Its tensors' hooks share it, so it lives as long as their graphs.
class BlockClock : public std::enable_shared_from_this<BlockClock> {
 public:
  explicit BlockClock(size_t blocks) : seconds_(blocks) {}

  void add(int block, double seconds) { seconds_[block] += seconds; }
  // A backward begins: that of the block whose gradients come next.
  void backward_begins() { last_ = Clock::now(); }
  // The gradients of these inputs of the block end its part of the backward.
  void watch_inputs(int block, const Tensors& inputs);
  // A backward is over; the rest of its time was this block's.
  void backward_ends(int first_block) { take(first_block); }
  const std::vector<double>& seconds() const { return seconds_; }

 private:
  using Clock = std::chrono::steady_clock;

  void take(int block);

  std::vector<double> seconds_;
  Clock::time_point last_;
};

}  // namespace fsdp::pipeline
