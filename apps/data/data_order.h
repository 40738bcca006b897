// Which tokens a rank trains on, and when: a pure function of the step, so that a run can be resumed anywhere and that
// ranks need not talk about it.
//
// The data is cut into windows of context + 1 tokens, each beginning with the last token of the one before, so that
// every token but the first is a target once per epoch. Each epoch visits all windows in an order of its own. One
// sequence of windows, epoch after epoch, is dealt to the micro-batches of the job in their global order: number b of
// rank r on N ranks is b * N + r. How a step is divided into ranks and micro-batches therefore does not change what it
// sees.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace data {

// The shape of one step of the job.
struct StepShape {
  int64_t ranks = 1;
  int64_t micro_batches = 1;  // a rank
  int64_t batch = 1;          // windows per micro-batch

  int64_t windows() const { return ranks * micro_batches * batch; }
};

class DataOrder {
 public:
  // tokens >= context + 1; epochs: how often the data may be visited, 0: without end
  DataOrder(int64_t tokens, int64_t context, uint64_t seed, int64_t epochs = 0);

  int64_t windows() const { return windows_; }
  // How many whole steps the data lasts, from the first of the run on; none: without end.
  std::optional<int64_t> steps(const StepShape& shape) const;
  // The problem with a run of so many steps: a sentence, empty when the data lasts.
  std::string problem(const StepShape& shape, int64_t steps) const;

  // The first tokens of the windows of micro-batch `micro_batch` of `rank` in `step`. Throws fsdp::Error when the data
  // has run out by then.
  std::vector<int64_t> window_starts(const StepShape& shape, int64_t step, int64_t rank, int64_t micro_batch) const;

 private:
  int64_t context_, windows_;
  uint64_t seed_;
  int64_t epochs_;
};

}  // namespace data
