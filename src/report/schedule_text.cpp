#include "report/schedule_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "base/repetition.h"
#include "base/table.h"

namespace fsdp::report {

namespace {

using schedule::Action;
using schedule::Actions;
using schedule::Event;
using Kind = Action::Kind;
using Names = std::vector<std::string>;  // of units

std::string bytes(int64_t value) {
  constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
  auto shown = static_cast<double>(value);
  size_t unit = 0;
  for (; shown >= 999.5; ++unit) shown /= 1000;
  const int digits = unit == 0 || shown >= 99.95 ? 0 : shown >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f} {}", shown, digits, kUnits[unit]);
}

std::string counted(int64_t count, const char* noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

bool has_waits(const ScheduleFacts& facts) { return facts.ranks > 1 && facts.steps > 0; }

// Per step; empty where ranks wait for nobody.
std::string mean_wait(const ScheduleFacts& facts, int64_t nanoseconds) {
  const double milliseconds = static_cast<double>(nanoseconds) / 1e6 / static_cast<double>(facts.steps);
  return has_waits(facts) ? fmt::format("{:.2f} ms", milliseconds) : "";
}

int64_t sum_of(const std::vector<UnitFacts>& units, int64_t UnitFacts::*fact) {
  return std::transform_reduce(units.begin(), units.end(), int64_t{0}, std::plus(), std::mem_fn(fact));
}

struct StepCounts {
  std::map<std::pair<Kind, schedule::UnitId>, int64_t> times;
  int64_t most_full = 0, most_bytes = 0;  // units at once, each at its largest
};

StepCounts counts_of(const ScheduleFacts& facts) {
  StepCounts counts;
  for (const auto& [times, full_before, events] : facts.step.micro_batches) {
    int64_t full = 0, full_bytes = 0;
    const auto change = [&](size_t unit, int by) {
      counts.most_full = std::max(counts.most_full, full += by);
      counts.most_bytes = std::max(counts.most_bytes, full_bytes += by * facts.units[unit].full_bytes);
    };
    for (size_t unit = 0; unit < full_before.size(); ++unit) change(unit, full_before[unit]);
    for (const auto& [kind, mode, action] : events) {
      if (kind != Event::Kind::Action) continue;
      counts.times[{action.kind, action.unit}] += times;
      change(action.unit, (action.kind == Kind::Gather) - (action.kind == Kind::Release));
    }
  }
  for (const Action& action : facts.step.behind) ++counts.times[{action.kind, action.unit}];
  return counts;
}

// A line per unit: what it is, and what a step does with it.
std::string units_table(const ScheduleFacts& facts, StepCounts& counts) {
  const auto of_gathers = [&](const std::string& text) { return facts.shards > 1 ? text : ""; };
  std::vector<Table::Row> rows;
  for (const UnitFacts& unit : facts.units) {
    const int id = static_cast<int>(rows.size());
    const int64_t gathers = counts.times[{Kind::Gather, id}], reductions = counts.times[{Kind::Reduce, id}];
    rows.push_back({unit.name, fmt::format("{}", fmt::group_digits(unit.numel)), of_gathers(bytes(unit.gather_bytes)),
                    of_gathers(fmt::format("{} x", gathers)), bytes(unit.reduction_bytes),
                    fmt::format("{} x", reductions), of_gathers(mean_wait(facts, unit.gather_wait)),
                    mean_wait(facts, unit.reduction_wait)});
  }
  const auto alike = [&](size_t a, size_t b) {  // but for names and waits
    return std::equal(&rows[a][1], &rows[a][6], &rows[b][1]) ? std::optional(0) : std::nullopt;
  };
  std::vector<Table::Column> columns{{"unit"}};
  for (const char* heading :
       {"parameters", "a gather", "a step", "a reduction", "a step", "gather waits", "reduce waits"})
    columns.push_back({heading, Table::Align::Right});
  Table table(columns);
  table.add(rows, alike, 0);
  return table.text();
}

// What a step brings to this rank, how much is full at once, and how long this rank waits.
std::string totals_text(const ScheduleFacts& facts, StepCounts& counts) {
  const auto traffic = [&](Kind kind, const char* noun, int64_t UnitFacts::*each) {
    int64_t times = 0, all_bytes = 0;
    for (int i = 0; i < static_cast<int>(facts.units.size()); ++i) {
      times += counts.times[{kind, i}];
      all_bytes += counts.times[{kind, i}] * (facts.units[i].*each);
    }
    return fmt::format("{} in {}", bytes(all_bytes), counted(times, noun));
  };
  const bool divided = facts.shards > 1;
  std::string text = fmt::format("{} parameters; this rank gets, in a step: {}{}\n",
                                 fmt::group_digits(sum_of(facts.units, &UnitFacts::numel)),
                                 divided ? traffic(Kind::Gather, "gather", &UnitFacts::gather_bytes) + ", " : "",
                                 traffic(Kind::Reduce, "reduction", &UnitFacts::reduction_bytes));
  if (divided)
    text += fmt::format("full at once: at most {}, {}\n", counted(counts.most_full, "unit"), bytes(counts.most_bytes));
  if (!has_waits(facts)) return text;
  const std::string gathers = mean_wait(facts, sum_of(facts.units, &UnitFacts::gather_wait)) + " for gathers, ";
  return text + fmt::format(
                    "this rank waits, in a step, the mean of {}: {}{} for reductions,\n"
                    "  {} for agreement of all ranks, {} for readers of the shards\n",
                    facts.steps, divided ? gathers : "",
                    mean_wait(facts, sum_of(facts.units, &UnitFacts::reduction_wait) + facts.replica_wait),
                    mean_wait(facts, facts.agreement_wait), mean_wait(facts, facts.reader_wait));
}

bool on_demand(const Action& action) { return action.kind == Kind::Gather && !action.foreseen; }

// The events that the text tells of, with the buffers that it tells.
std::vector<Event> told(std::vector<Event> events, const ScheduleFacts& facts) {
  std::set<Kind> shown{Kind::Reduce, Kind::WaitReduce, Kind::WaitBuffer}, in_buffer;
  if (facts.shards > 1) shown.insert({Kind::Gather, Kind::Release});
  if (facts.tells_buffers) in_buffer.insert(Kind::Gather);
  if (facts.tells_gradient_buffers) in_buffer.insert(Kind::Reduce);
  std::erase_if(events, [&](const Event& event) {
    return event.kind == Event::Kind::Action && !shown.contains(event.action.kind);
  });
  for (auto& [event, mode, action] : events) {
    if (action.kind == Kind::WaitBuffer) action.kind = Kind::WaitReduce;
    if (!in_buffer.contains(action.kind)) action.buffer = -1;
  }
  return events;
}

// A use of a unit and what it caused, or several uses that caused nothing.
struct StepRow {
  std::string phase;
  std::span<const Event> events;
};

std::vector<StepRow> rows_of(std::span<const Event> events) {
  const auto is = [&](size_t i, Event::Kind kind) { return i < events.size() && events[i].kind == kind; };
  const auto phase = [&](size_t i) -> std::string {
    if (!is(i, Event::Kind::Use)) return is(i, Event::Kind::EndOfBackward) ? "end" : "";
    return events[i].mode == schedule::Mode::Backward ? "backward" : "forward";
  };
  std::vector<StepRow> rows;
  for (size_t begin = 0, i = 1; begin < events.size(); ++i) {
    const bool idle = is(i, Event::Kind::Use) && phase(i) == phase(i - 1) && !is(i + 1, Event::Kind::Action);
    if (idle || is(i, Event::Kind::Action)) continue;
    rows.push_back({phase(begin), events.subspan(begin, i - begin)});
    begin = i;
  }
  return rows;
}

// "encoder.layers.3" is layers.3 here, where all names with dots begin with "encoder.".
Names short_names(const ScheduleFacts& facts) {
  std::set<std::string> prefixes;
  for (const UnitFacts& unit : facts.units) {
    const size_t dot = unit.name.rfind('.');
    if (dot != std::string::npos) prefixes.insert(unit.name.substr(0, unit.name.rfind('.', dot - 1) + 1));
  }
  const std::string prefix = prefixes.size() == 1 ? *prefixes.begin() : "";
  Names names;
  for (const UnitFacts& unit : facts.units)
    names.push_back(unit.name.substr(unit.name.starts_with(prefix) ? prefix.size() : 0));
  return names;
}

// "root, blocks.0 to blocks.5, root"; with buffers "root@0, blocks.0@1"; of many the first, and how many more.
std::string list(const Actions& listed, const Names& names) {
  constexpr size_t kMost = 4;
  std::vector<std::string> parts;
  const auto stride = [&](size_t i) { return listed[i].buffer < 0 ? listed[i].unit - listed[i - 1].unit : 0; };
  for (size_t i = 0, end = 0; i < listed.size(); i = end) {
    for (end = i + 1; end < listed.size() && std::abs(stride(end)) == 1 && stride(end) == stride(i + 1);) ++end;
    if (end < i + 3) end = i + 1;
    parts.push_back(names[listed[i].unit]);
    if (listed[i].buffer >= 0) parts.back() += fmt::format("@{}", listed[i].buffer);
    if (end > i + 1) parts.back() += " to " + names[listed[end - 1].unit];
  }
  const size_t more = parts.size() > kMost ? parts.size() - (kMost - 1) : 0;
  parts.resize(parts.size() - more);
  return fmt::format("{}{}{}", fmt::join(parts, ", "), more > 0 ? fmt::format(" and {} more", more) : "",
                     std::ranges::any_of(listed, on_demand) ? " *" : "");
}

std::string table_of(const std::vector<StepRow>& rows, const Names& names) {
  std::vector<Table::Row> texts;
  for (const auto& [phase, events] : rows) {
    std::map<std::pair<Event::Kind, Kind>, Actions> cells;
    for (const auto& [event, mode, action] : events) cells[{event, action.kind}].push_back(action);
    texts.push_back({phase, list(cells[{Event::Kind::Use, Kind{}}], names)});
    for (const Kind kind : {Kind::Gather, Kind::Release, Kind::Reduce, Kind::WaitReduce}) {
      Actions& cell = cells[{Event::Kind::Action, kind}];  // in the order of the units, unless it tells of buffers
      if (!cell.empty() && cell[0].buffer < 0) std::ranges::sort(cell, {}, &Action::unit);
      texts.back().push_back(list(cell, names));
    }
  }
  // By how much the units of row b are those of row a moved on.
  const auto shift = [&](size_t a, size_t b) -> std::optional<int> {
    const int by = rows[b].events[0].action.unit - rows[a].events[0].action.unit;
    const auto moved = [&](const Event& x, const Event& y) {
      return x.kind == y.kind && x.action.kind == y.action.kind && y.action.unit - x.action.unit == by;
    };
    const bool alike = rows[a].phase == rows[b].phase && std::ranges::equal(rows[a].events, rows[b].events, moved);
    return alike ? std::optional(by) : std::nullopt;
  };
  Table table({{"phase"}, {"unit"}, {"gathers"}, {"releases"}, {"reduces"}, {"has reduced"}});
  table.add(texts, shift, 1);
  return table.text();
}

std::string step_text(const ScheduleFacts& facts, const Names& names) {
  std::vector<std::pair<int, std::vector<Event>>> parts;  // how many micro-batches, and what happens in each
  int count = 0, last = 0;
  bool marked = false;
  for (const auto& [alike, full_before, all] : facts.step.micro_batches) {
    std::vector<Event> events = told(all, facts);
    marked |= std::ranges::any_of(events, on_demand, &Event::action);
    if (parts.empty() || parts.back().second != events) parts.emplace_back(0, std::move(events));
    parts.back().first += alike;
    count += alike;
  }
  if (parts.empty()) return "\nno step is recorded yet\n";
  std::vector<Event> behind;
  for (const Action& action : facts.step.behind) behind.push_back({.kind = Event::Kind::Action, .action = action});
  behind = told(behind, facts);
  std::string text;
  for (const auto& [alike, events] : parts) {
    last += alike;
    std::vector<StepRow> rows = rows_of(events);
    if (last == count && !behind.empty()) rows.push_back({"step", behind});
    if (alike > 1) text += fmt::format("\nmicro-batches {} to {} of {}, each", last - alike + 1, last, count);
    if (alike == 1 && count > 1) text += fmt::format("\nmicro-batch {} of {}", last, count);
    text += "\n" + table_of(rows, names);
  }
  return text + (marked ? "* on demand: there was no plan that it followed\n" : "");
}

}  // namespace

std::string schedule_text(const ScheduleFacts& facts) {
  const bool groups = facts.shards > 1 && facts.shards < facts.ranks;
  std::string text = fmt::format("{} on {}{}: {}", facts.strategy, counted(facts.ranks, "rank"),
                                 groups ? fmt::format(" in groups of {}", facts.shards) : "",
                                 counted(std::ssize(facts.units), "unit"));
  if (facts.ranks > 1) {
    text += facts.buffers > 0 ? fmt::format(", {} buffers for full units", facts.buffers) : ", gathers copy nothing";
    text += fmt::format(", {} buffers for gradients", facts.gradient_buffers);
  }
  const Names names = short_names(facts);
  StepCounts counts = counts_of(facts);
  text += "\n\n" + units_table(facts, counts) + "\n" + totals_text(facts, counts) + step_text(facts, names);
  if (facts.evaluation.empty()) return text;
  Actions uses;
  for (const schedule::UnitId unit : facts.evaluation) uses.push_back({.kind = {}, .unit = unit});
  return text + fmt::format("\nwithout gradients: {}\n", list(uses, names));
}

}  // namespace fsdp::report
