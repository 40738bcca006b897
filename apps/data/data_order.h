// Which bytes a rank trains on, and when: a pure function of the step, so that a run can be resumed anywhere and that
// ranks need not talk about it.
//
// The text is cut into windows of context + 1 bytes, each beginning with the last byte of the one before, so that every
// byte but the first is a target once an epoch. Each epoch visits all windows in an order of its own. One sequence of
// windows, epoch after epoch, is dealt to the micro-batches of the job in their global order: number b of rank r on N
// ranks is b * N + r. How a step is divided into ranks and micro-batches therefore does not change what it sees.
#pragma once

#include <cstdint>
#include <vector>

namespace trainer {

// The shape of one step of the job.
struct StepShape {
  int64_t ranks = 1;
  int64_t micro_batches = 1;  // a rank
  int64_t batch = 1;          // windows a micro-batch
};

// A permutation of 0 .. count-1. The same on every machine and standard library: Fisher and Yates' shuffle on
// splitmix64 (Steele, Lea and Flood, 2014, "Fast splittable pseudorandom number generators").
std::vector<int64_t> shuffled(int64_t count, uint64_t seed, uint64_t epoch);

class DataOrder {
 public:
  // text_bytes >= context + 1
  DataOrder(int64_t text_bytes, int64_t context, uint64_t seed);

  int64_t windows() const { return windows_; }
  // The first bytes of the windows of micro-batch `micro_batch` of `rank` in `step`.
  std::vector<int64_t> window_starts(const StepShape& shape, int64_t step, int64_t rank, int64_t micro_batch);

 private:
  int64_t context_, windows_;
  uint64_t seed_;
  int64_t epoch_ = -1;  // that order_ is for
  std::vector<int64_t> order_;
};

}  // namespace trainer
