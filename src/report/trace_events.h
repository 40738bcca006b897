// A timeline in the JSON that chrome://tracing and Perfetto read: "Trace Event Format", the array form, so that files
// of several ranks are joined by joining their arrays.
#pragma once

#include <string>
#include <vector>

#include "report/timeline.h"

namespace fsdp::report {

// `units` has the units' names. The rank is the process; its rows are threads, where nothing overlaps: computation,
// waits, and as many for gathers and for reductions as there are at once.
std::string trace_events(const std::vector<Span>& spans, const std::vector<std::string>& units, int rank);

}  // namespace fsdp::report
