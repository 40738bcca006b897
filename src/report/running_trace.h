// A trace that goes on: the parts of a rank's program that record spans and memory.
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
  // A part that records from now on. `end` ends it and returns its record.
  void add(std::function<TracePart()> end) { ends_.push_back(std::move(end)); }
  // A span of the program itself.
  void add(NamedSpan span) { own_.spans.push_back(std::move(span)); }
  // Ends all parts.
  std::vector<TracePart> end() {
    std::vector<TracePart> all{std::exchange(own_, {})};
    for (const auto& end : std::exchange(ends_, {})) all.push_back(end());
    return all;
  }

 private:
  int rank_;
  bool alone_;
  TracePart own_;
  std::vector<std::function<TracePart()>> ends_;
};

}  // namespace fsdp::report
