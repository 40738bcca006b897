// Keeps the times of a model: always how long it waited, and while it is traced all that a timeline shows.
//
// Untraced, a wait costs two looks at the clock and everything else a branch. Knows no tensors. Not for concurrent use,
// but for `waits_now`.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "report/timeline.h"

namespace fsdp::report {

// The record of a traced model.
struct Recorded {
  std::vector<Span> spans;
  std::vector<MemorySample> memory;
};

struct Waited {
  int64_t count = 0;
  int64_t nanoseconds = 0;
};

class Recorder {
 public:
  explicit Recorder(size_t units) { waited_.fill(std::vector<Waited>(units + 1)); }

  // Runs `body`, which waits.
  template <typename Body>
  auto waits(Activity wait, int unit, Body body) {
    const Wait measured{*this, wait, unit, now()};
    waits_now_.store(static_cast<int64_t>(index_of(wait)) * kUnits + unit + 1, std::memory_order_relaxed);
    return body();
  }
  // The wait that is going on, and its unit. Any thread.
  std::optional<std::pair<Activity, int>> waits_now() const {
    const int64_t wait = waits_now_.load(std::memory_order_relaxed);
    if (wait < 0) return std::nullopt;
    const auto activity = static_cast<Activity>(wait / kUnits + static_cast<int64_t>(Activity::WaitGather));
    return std::pair(activity, static_cast<int>(wait % kUnits) - 1);
  }
  // `unit` is kNoUnit for waits that concern none.
  const Waited& waited(Activity wait, int unit = kNoUnit) const { return waited_[index_of(wait)][unit + 1]; }

  Waited all_waited() const {
    Waited all;
    for (const auto& units : waited_) {
      for (const Waited& waited : units) all.count += waited.count, all.nanoseconds += waited.nanoseconds;
    }
    return all;
  }

  void begins(Activity communication, int unit) {
    if (timeline_) timeline_->begins(communication, unit);
  }
  void ends(Activity communication, int unit) {
    if (timeline_) timeline_->ends(communication, unit);
  }
  int64_t touched() const { return timeline_ ? now() : 0; }
  // An operator that began at `touched` runs now.
  void computes(Activity computation, int unit, int64_t touched) {
    if (timeline_) timeline_->computes(computation, unit, touched);
  }
  void computes(Activity computation) { computes(computation, kNoUnit, touched()); }
  void computes_nothing() {
    if (timeline_) timeline_->computes_nothing();
  }

  bool traced() const { return timeline_ != nullptr; }
  // `memory`: as Timeline's.
  void begin_trace(std::function<MemorySample()> memory = nullptr) {
    timeline_ = std::make_unique<Timeline>(std::move(memory));
  }
  Recorded end_trace() {
    const std::unique_ptr<Timeline> timeline = std::move(timeline_);
    std::vector<Span> spans = timeline->take();  // ends the last computation
    return {std::move(spans), timeline->take_memory()};
  }

 private:
  static constexpr size_t kWaits = 6;
  static size_t index_of(Activity wait) {
    return static_cast<size_t>(wait) - static_cast<size_t>(Activity::WaitGather);
  }
  struct Wait {
    ~Wait() {
      recorder.waits_now_.store(kWaitsNot, std::memory_order_relaxed);
      recorder.add({wait, unit, begin, now()});
    }
    Recorder& recorder;
    Activity wait;
    int unit;
    int64_t begin;
  };
  void add(const Span& wait) {
    Waited& waited = waited_[index_of(wait.activity)][wait.unit + 1];
    ++waited.count;
    waited.nanoseconds += wait.end - wait.begin;
    if (timeline_) timeline_->add(wait);
  }

  static constexpr int64_t kUnits = int64_t{1} << 32, kWaitsNot = -1;

  std::atomic<int64_t> waits_now_{kWaitsNot};       // kind times kUnits plus the unit's number from 1 on
  std::array<std::vector<Waited>, kWaits> waited_;  // by kind of wait, then for no unit and for each
  std::unique_ptr<Timeline> timeline_;              // while the model is traced
};

}  // namespace fsdp::report
