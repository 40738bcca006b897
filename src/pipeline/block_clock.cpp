#include "pipeline/block_clock.h"

#include <utility>

namespace fsdp::pipeline {

void BlockClock::watch_inputs(int block, const Tensors& inputs) {
  for (const torch::Tensor& input : inputs) {
    if (!input.requires_grad()) continue;
    input.register_hook([clock = weak_from_this(), block](const torch::Tensor&) {
      if (const auto alive = clock.lock()) alive->take(block);
    });
  }
}

void BlockClock::take(int block) {
  const Clock::time_point now = Clock::now();
  seconds_[block] += std::chrono::duration<double>(now - std::exchange(last_, now)).count();
}

}  // namespace fsdp::pipeline
