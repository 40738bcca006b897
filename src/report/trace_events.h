// A timeline in the JSON that chrome://tracing and Perfetto read: "Trace Event Format", the array form, so that files
// of several ranks are joined by joining their arrays.
#pragma once

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "report/timeline.h"

namespace fsdp::report {

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

// A model's spans. `units` has the units' names.
std::vector<NamedSpan> named_spans(const std::vector<Span>& spans, const std::vector<std::string>& units);

// The rank is the process; its rows are threads, where nothing overlaps: as many of a kind as there are spans at once.
std::string trace_events(const std::vector<NamedSpan>& spans, int rank);

}  // namespace fsdp::report
