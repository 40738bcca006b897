// A timeline in the JSON that chrome://tracing and Perfetto read: "Trace Event Format", the array form, so that files
// of several ranks are joined by joining their arrays.
#pragma once

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "report/timeline.h"

namespace fsdp::report {

// The program's own spans, each within another one or beside it.
inline constexpr const char* kProgram = "program";
// Rows of a pipeline.
inline constexpr const char* kPipeline = "pipeline";
inline constexpr const char* kPipelineWaits = "pipeline waits";
inline constexpr const char* kPipelineIdle = "pipeline idle";

// More facts of a span, by name, which viewers show beside it.
using SpanFacts = std::vector<std::pair<const char*, std::variant<int, const char*>>>;

struct NamedSpan {
  const char* row = "";  // the kind of row
  std::string name;
  int64_t begin = 0, end = 0;  // nanoseconds
  SpanFacts facts = {};
};

// Bytes by name, from `time` on.
struct CountedBytes {
  int64_t time = 0;  // nanoseconds
  std::vector<std::pair<const char*, int64_t>> bytes = {};
};

// The record of one part of a rank's program.
struct TracePart {
  std::vector<NamedSpan> spans = {};
  std::vector<CountedBytes> memory = {};
};

// A model's spans. `units` has the units' names.
std::vector<NamedSpan> named_spans(const std::vector<Span>& spans, const std::vector<std::string>& units);
// A model's memory, by the names of MemoryReport's parts; "other tensors" are without the activations.
std::vector<CountedBytes> counted_bytes(const std::vector<MemorySample>& memory);

// The rank is the process; its rows are threads, where nothing overlaps: as many of a kind as there are spans at once.
// In the program's row spans may lie within others. A part with memory is a counter. `shift` is added to all times.
std::string trace_events(const std::vector<TracePart>& parts, int rank, int64_t shift = 0);
inline std::string trace_events(const std::vector<NamedSpan>& spans, int rank) {
  return trace_events({TracePart{.spans = spans}}, rank);
}

}  // namespace fsdp::report
