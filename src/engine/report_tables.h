// What a model's schedule comes to, as text: a table of the units and one of a step. Knows no tensors.
#pragma once

#include <string>
#include <vector>

#include "report/recorder.h"
#include "schedule/record.h"

namespace fsdp::engine {

struct UnitFacts {
  std::string name;
  int64_t numel = 0;            // of its parameters
  int64_t full_bytes = 0;       // of the full unit, padding included
  int64_t gather_bytes = 0;     // that a gather brings to this rank
  int64_t reduction_bytes = 0;  // the same for a reduction
};

// What a report of a step has to show: what does not exist in a model is left out.
struct ReportOptions {
  bool gathers = true;              // units are divided among ranks
  bool buffers = true;              // into buffers that units share
  bool gradient_buffers = true;     // which units share
  const report::Recorder* waits = nullptr;  // where there were steps to measure, on several ranks
  int64_t steps = 0;                // that were measured
};

// A line a unit: what it is, and what a step does with it.
std::string units_table(const std::vector<UnitFacts>& units, const schedule::Step& step, const ReportOptions& options);
// Two lines: what a step brings to this rank, and how long it waits.
std::string step_totals(const std::vector<UnitFacts>& units, const schedule::Step& step, const ReportOptions& options);
// A line for each use of a unit that caused something, and for those between them.
std::string step_table(const std::vector<UnitFacts>& units, const schedule::Step& step, const ReportOptions& options);

}  // namespace fsdp::engine
