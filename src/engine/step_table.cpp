// The table of a step: what each use of a unit causes.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/repetition.h"
#include "base/table.h"
#include "engine/report_tables.h"
#include "engine/step_rows.h"
#include "engine/unit_names.h"

namespace fsdp::engine {

namespace {

using schedule::Action;
using schedule::UnitId;

// Of what happens at one time: in the order of their numbers, which lists shorter.
std::vector<UnitId> units_of(const schedule::Actions& actions) {
  std::vector<UnitId> units;
  for (const Action& action : actions) units.push_back(action.unit);
  std::sort(units.begin(), units.end());
  return units;
}

class Writer {
 public:
  Writer(const std::vector<UnitFacts>& units, const ReportOptions& options) : units_(units), options_(options) {}

  std::string table(const std::vector<StepRow>& rows) {
    Table table({{"phase"}, {"unit"}, {"gathers"}, {"releases"}, {"reduces"}, {"has reduced"}});
    const auto shift = [&](size_t a, size_t b) { return shift_between(rows[a], rows[b]); };
    for (const auto& [begin, shown, repeated] : find_repetitions(rows.size(), shift)) {
      for (size_t i = begin; i < begin + shown; ++i) {
        const StepRow& row = rows[i];
        table.add({std::string(row.phase), list_units(units_, row.uses), in_buffers(row.gathers, options_.buffers),
                   list_units(units_, units_of(row.releases)), in_buffers(row.reductions, options_.gradient_buffers),
                   list_units(units_, units_of(row.ends))});
      }
      if (repeated > 0) {
        const StepRow& last = rows[begin + shown + repeated - 1];
        table.add({std::string(last.phase), fmt::format("{} more, to {}", repeated, units_[last.uses.back()].name), "",
                   "", "", ""});
      }
    }
    return table.text();
  }
  bool on_demand() const { return on_demand_; }

 private:
  std::string in_buffers(const schedule::Actions& actions, bool buffers) {
    const bool gathers = !actions.empty() && actions[0].kind == Action::Kind::Gather;
    if (!buffers && !gathers) return list_units(units_, units_of(actions));
    std::vector<std::string> parts;
    bool unforeseen = false;
    for (const Action& action : actions) {
      parts.push_back(buffers ? fmt::format("{}@{}", units_[action.unit].name, action.buffer) : "");
      unforeseen |= gathers && !action.foreseen;
    }
    on_demand_ |= unforeseen;
    return (buffers ? list_first(std::move(parts)) : list_units(units_, units_of(actions))) + (unforeseen ? " *" : "");
  }

  const std::vector<UnitFacts>& units_;
  const ReportOptions& options_;
  bool on_demand_ = false;  // some gather was
};

}  // namespace

std::string step_table(const std::vector<UnitFacts>& units, const schedule::Step& recorded,
                       const ReportOptions& options) {
  const std::vector<UnitFacts> shortly_named = without_common_prefix(units);
  const schedule::Step step = options.gathers ? recorded : without_gathers(recorded);
  Writer writer(shortly_named, options);
  int count = 0, number = 0;
  for (const auto& part : step.micro_batches) count += part.count;
  std::string text;
  for (const auto& part : step.micro_batches) {
    std::vector<StepRow> rows = rows_of(part.events);
    number += part.count;
    if (number == count) {
      if (StepRow behind = row_behind(step.behind); !behind.caused_nothing()) rows.push_back(std::move(behind));
    }
    if (count > 1) {
      const int first = number - part.count + 1;
      text += part.count == 1 ? fmt::format("\nmicro-batch {} of {}\n", number, count)
                              : fmt::format("\nmicro-batches {} to {} of {}, each\n", first, number, count);
    } else {
      text += "\n";
    }
    text += writer.table(rows);
  }
  if (writer.on_demand()) text += "* on demand: there was no plan that it followed\n";
  return text;
}

}  // namespace fsdp::engine
