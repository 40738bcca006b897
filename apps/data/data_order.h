// Which tokens a rank trains on, and when: a pure function of the step, so that a run can be resumed anywhere and that
// ranks need not talk about it.
//
// The data is cut into windows of context + 1 tokens, each beginning with the last token of the one before, so that
// every token but the first is a target once per epoch. Each epoch visits all windows in an order of its own. One
// sequence of windows, epoch after epoch, is dealt to the micro-batches of the job in their global order: number b of
// rank r on N ranks is b * N + r. How a step is divided into ranks and micro-batches therefore does not change what it
// sees.
//
// Several sources with weights have their own windows and epochs. The sequence takes from them in turn, as evenly as
// their weights allow (the smooth weighted round-robin of nginx). A table of one cycle gives the source of any place
// without the places before it. Its size does not depend on the data's.
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

// A source among the tokens of a job.
struct OrderedSource {
  int64_t first = 0;  // token
  int64_t tokens = 0;
  double weight = 1;
};

class DataOrder {
 public:
  static constexpr int64_t kCycle = 4096;  // windows, in which each source has its share

  // Each source has context + 1 tokens or more. Throws fsdp::Error for a weight of less than one window in a cycle.
  DataOrder(const std::vector<OrderedSource>& sources, int64_t context, uint64_t seed, int64_t epochs = 0);
  // tokens >= context + 1; epochs: how often the data may be visited, 0: without end
  DataOrder(int64_t tokens, int64_t context, uint64_t seed, int64_t epochs = 0);

  int64_t windows() const { return windows_; }  // of all sources
  // How often each source is visited by so many windows of the sequence.
  std::vector<double> epochs_of(int64_t windows) const;
  // How many whole steps the data lasts, from the first of the run on; none: without end.
  std::optional<int64_t> steps(const StepShape& shape) const;
  // The problem with a run of so many steps: a sentence, empty when the data lasts.
  std::string problem(const StepShape& shape, int64_t steps) const;

  // The first tokens of the windows of micro-batch `micro_batch` of `rank` in `step`. Throws fsdp::Error when the data
  // has run out by then.
  std::vector<int64_t> window_starts(const StepShape& shape, int64_t step, int64_t rank, int64_t micro_batch) const;

 private:
  struct Part {
    int64_t first, windows;
    int64_t of_cycle = 0;  // windows of a cycle that are this source's
    uint64_t seed = 0;
  };
  struct Slot {
    size_t part;
    int64_t before;  // windows of the part that come before in the cycle
  };
  void divide_cycle(const std::vector<OrderedSource>& sources);
  void fill_cycle();
  int64_t start_at(int64_t place) const;

  int64_t context_, windows_ = 0;
  int64_t epochs_;
  std::vector<Part> parts_;
  std::vector<Slot> cycle_;
};

}  // namespace data
