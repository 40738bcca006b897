// The times of a traced model, as spans of the steady clock.
//
// Computation lies between touches: from the first operator that takes a unit until one takes another. Memory is looked
// at between two computations. Knows neither tensors nor files. Not for concurrent use.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "report/memory_sample.h"

namespace fsdp::report {

enum class Activity {
  // Computation, one after the other.
  Forward,
  Backward,
  Update,
  Publish,
  // Communication, from its beginning until it is known to be over; several at once.
  Gather,
  Reduce,
  // Waits, one after the other.
  WaitGather,
  WaitReduce,
  WaitReplicas,   // for the sums of the other shard groups
  WaitReaders,    // of the shards, before these change
  WaitAgreement,  // of all ranks on what they do
  WaitParts,      // for the other parts of the model, along another axis
};

inline constexpr int kNoUnit = -1;

struct Span {
  Activity activity;
  int unit = kNoUnit;
  int64_t begin = 0;  // nanoseconds
  int64_t end = 0;
};

inline int64_t now() {
  const auto time = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
}

class Timeline {
 public:
  // `memory` returns the memory since its last call, but for the time. Null: it is not looked at.
  explicit Timeline(std::function<MemorySample()> memory = nullptr);

  // The computation so far ends at `end`, and this one begins now, unless it is that one.
  void computes(Activity activity, int unit, int64_t end);
  void computes_nothing();
  void begins(Activity activity, int unit) { under_way_.push_back({activity, unit, now()}); }
  void ends(Activity activity, int unit);
  void add(const Span& span) { spans_.push_back(span); }

  // All that has ended, in the order of the ends.
  std::vector<Span> take();
  // The memory from the beginning on, in order.
  std::vector<MemorySample> take_memory() { return std::exchange(samples_, {}); }

 private:
  void look_at_memory();

  std::function<MemorySample()> memory_;
  int64_t looked_at_ = 0;  // the time of the last look
  std::vector<MemorySample> samples_;
  std::optional<Span> computing_;
  std::vector<Span> under_way_;
  std::vector<Span> spans_;
};

}  // namespace fsdp::report
