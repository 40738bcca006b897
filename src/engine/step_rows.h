// The rows of a step's table: each use of a unit, and what it caused. Knows neither names nor text.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "schedule/record.h"

namespace fsdp::engine {

struct StepRow {
  std::string_view phase = {};
  std::vector<schedule::UnitId> uses = {};  // one, or several one after the other that caused nothing
  schedule::Actions gathers = {}, releases = {}, reductions = {}, ends = {};

  bool caused_nothing() const { return gathers.empty() && releases.empty() && reductions.empty() && ends.empty(); }
};

// Of a micro-batch.
std::vector<StepRow> rows_of(const std::vector<schedule::Event>& events);
// Of what happens after the last micro-batch.
StepRow row_behind(const schedule::Actions& actions);
// By how much the units of `b` are those of `a` moved on; none where the rows differ otherwise.
std::optional<int> shift_between(const StepRow& a, const StepRow& b);
// The step without what gathers and releases. Micro-batches that then differ in nothing are one.
schedule::Step without_gathers(const schedule::Step& step);

}  // namespace fsdp::engine
