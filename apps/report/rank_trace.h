// One rank's part of a trace, as read from its Chrome trace events (docs/tracing.md).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trainer {

// Times are in nanoseconds.
struct TraceSpan {
  std::string kind;  // of its row: "forward", "waits", ...
  std::string name;
  int64_t begin = 0, end = 0;
};

// The most bytes of each part from `time` until the next of these.
struct TraceMemory {
  int64_t time = 0;
  std::vector<std::pair<std::string, int64_t>> bytes = {};

  // Without those in files.
  int64_t total() const;
};

struct RankTrace {
  int rank = 0;
  std::vector<TraceSpan> spans = {};     // in the order of their begins
  std::vector<TraceMemory> memory = {};  // of the first counter

  // The spans of a kind, in the order of their begins.
  std::vector<TraceSpan> of_kind(std::string_view kind) const;
};

// Reads the array of events of one rank, whose spans are in the order of their begins. Throws fsdp::Error for a text
// that is none.
RankTrace read_rank_trace(std::string_view events);

}  // namespace trainer
