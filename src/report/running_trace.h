// A trace that goes on: the parts of a rank's program that record spans.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "report/trace_events.h"

namespace fsdp::report {

class RunningTrace {
 public:
  // `alone`: other ranks have no such trace, and need no files of other names.
  RunningTrace(int rank, bool alone) : rank_(rank), alone_(alone) {}
  ~RunningTrace() { end(); }
  RunningTrace(const RunningTrace&) = delete;
  RunningTrace& operator=(const RunningTrace&) = delete;

  int rank() const { return rank_; }
  bool alone() const { return alone_; }
  // A part that records from now on. `end` ends it and returns its spans.
  void add(std::function<std::vector<NamedSpan>()> end) { ends_.push_back(std::move(end)); }
  // Ends all parts.
  std::vector<NamedSpan> end() {
    std::vector<NamedSpan> all;
    for (const auto& end : std::exchange(ends_, {})) {
      std::vector<NamedSpan> spans = end();
      all.insert(all.end(), spans.begin(), spans.end());
    }
    return all;
  }

 private:
  int rank_;
  bool alone_;
  std::vector<std::function<std::vector<NamedSpan>()>> ends_;
};

}  // namespace fsdp::report
