#include "report/schedule_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <set>
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

// Per step; empty if ranks do not wait.
std::string mean_wait(const ScheduleFacts& facts, int64_t nanoseconds) {
  if (facts.ranks == 1 || facts.steps == 0) return "";
  return fmt::format("{:.2f} ms", static_cast<double>(nanoseconds) / 1e6 / static_cast<double>(facts.steps));
}

int64_t sum_of(const std::vector<UnitFacts>& units, int64_t UnitFacts::*fact) {
  return std::transform_reduce(units.begin(), units.end(), int64_t{0}, std::plus(), std::mem_fn(fact));
}

struct StepCounts {
  std::vector<int64_t> gathers, reductions;  // per unit
  int64_t most_full = 0, most_bytes = 0;     // units at once, each at its largest
};

StepCounts counts_of(const ScheduleFacts& facts) {
  StepCounts counts{std::vector<int64_t>(facts.units.size()), std::vector<int64_t>(facts.units.size())};
  int64_t full = 0, full_bytes = 0;
  std::vector<uint8_t> is_full(facts.units.size());
  // A held unit is listed as gathered behind the micro-batches that found it full.
  const auto set_full = [&](size_t unit, bool now) {
    const int by = static_cast<int>(now) - is_full[unit];
    is_full[unit] = now;
    counts.most_full = std::max(counts.most_full, full += by);
    counts.most_bytes = std::max(counts.most_bytes, full_bytes += by * facts.units[unit].full_bytes);
  };
  const auto add = [&](const Action& action, int times) {
    if (action.kind == Kind::Reduce) counts.reductions[action.unit] += times;
    if (action.kind == Kind::Gather) counts.gathers[action.unit] += times;
    if (action.kind == Kind::Gather || action.kind == Kind::Release) set_full(action.unit, action.kind == Kind::Gather);
  };
  for (const auto& [times, full_before, events] : facts.step.micro_batches) {
    for (size_t unit = 0; unit < full_before.size(); ++unit) set_full(unit, false);
    for (size_t unit = 0; unit < full_before.size(); ++unit) set_full(unit, full_before[unit] != 0);
    for (const Event& event : events) {
      if (event.kind == Event::Kind::Action) add(event.action, times);
    }
  }
  for (const Action& action : facts.step.behind) add(action, 1);
  return counts;
}

// A line per unit: its size, and what a step does with it.
std::string units_table(const ScheduleFacts& facts, const StepCounts& counts) {
  const auto of_gathers = [&](const std::string& text) { return facts.shards > 1 ? text : ""; };
  std::vector<Table::Row> rows;
  for (const UnitFacts& unit : facts.units) {
    const size_t id = rows.size();
    rows.push_back({unit.name, fmt::format("{}", fmt::group_digits(unit.numel)), of_gathers(bytes(unit.gather_bytes)),
                    of_gathers(fmt::format("{} x", counts.gathers[id])), bytes(unit.reduction_bytes),
                    fmt::format("{} x", counts.reductions[id]), of_gathers(mean_wait(facts, unit.gather_wait)),
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

// Per step: the bytes that this rank gets, how much is full at once, and how long this rank waits.
std::string totals_text(const ScheduleFacts& facts, const StepCounts& counts) {
  const auto traffic = [&](const std::vector<int64_t>& times, const char* noun, int64_t UnitFacts::*each) {
    int64_t all_bytes = 0;
    for (size_t i = 0; i < times.size(); ++i) all_bytes += times[i] * (facts.units[i].*each);
    return fmt::format("{} in {}", bytes(all_bytes), counted(std::reduce(times.begin(), times.end()), noun));
  };
  const bool divided = facts.shards > 1;
  std::string text = fmt::format("{} parameters; this rank gets, in a step: {}{}\n",
                                 fmt::group_digits(sum_of(facts.units, &UnitFacts::numel)),
                                 divided ? traffic(counts.gathers, "gather", &UnitFacts::gather_bytes) + ", " : "",
                                 traffic(counts.reductions, "reduction", &UnitFacts::reduction_bytes));
  if (divided)
    text += fmt::format("full at once: at most {}, {}\n", counted(counts.most_full, "unit"), bytes(counts.most_bytes));
  const std::string gathers = mean_wait(facts, sum_of(facts.units, &UnitFacts::gather_wait));
  if (gathers.empty()) return text;
  return text + fmt::format(
                    "this rank waits, in a step, the mean of {}: {}{} for reductions,\n"
                    "  {} for agreement of all ranks, {} for readers of the shards\n",
                    facts.steps, divided ? gathers + " for gathers, " : "",
                    mean_wait(facts, sum_of(facts.units, &UnitFacts::reduction_wait) + facts.replica_wait),
                    mean_wait(facts, facts.agreement_wait), mean_wait(facts, facts.reader_wait));
}

constexpr const char* kOnDemand = " *";  // marks a row with a gather on demand

// A use of a unit and what it caused, or several uses that caused nothing.
struct StepRow {
  std::string phase;
  std::array<Actions, 5> cells = {};  // uses, gathers, releases, reductions that begin, reductions that have ended
  bool idle() const { return std::all_of(cells.begin() + 1, cells.end(), std::mem_fn(&Actions::empty)); }
  bool operator==(const StepRow&) const = default;
};

// Adds what the text tells of an action: in the order of the units, unless buffers are told.
void add(Action action, const ScheduleFacts& facts, StepRow& row) {
  if (action.kind == Kind::WaitBuffer) action.kind = Kind::WaitReduce;
  constexpr std::array kTold{Kind::Gather, Kind::Release, Kind::Reduce, Kind::WaitReduce};
  const auto column = std::ranges::find(kTold, action.kind) - kTold.begin();
  if (column == 4 || (column < 2 && facts.shards == 1)) return;
  if (column == 0 ? !facts.tells_buffers : column != 2 || !facts.tells_gradient_buffers) action.buffer = -1;
  Actions& cell = row.cells.at(1 + column);
  const auto in_order = std::ranges::upper_bound(cell, action.unit, {}, &Action::unit);
  cell.insert(action.buffer < 0 ? in_order : cell.end(), action);
}

std::vector<StepRow> rows_of(const std::vector<Event>& events, const ScheduleFacts& facts) {
  std::vector<StepRow> rows;
  for (auto event = events.begin(); event != events.end();) {
    const bool ends = event->kind == Event::Kind::EndOfBackward;
    StepRow row{ends ? "end" : event->mode == schedule::Mode::Backward ? "backward" : "forward"};
    if (!ends) row.cells[0].push_back(event->action);
    for (++event; event != events.end() && event->kind == Event::Kind::Action; ++event) add(event->action, facts, row);
    const bool joins = !rows.empty() && rows.back().phase == row.phase && rows.back().idle() && row.idle();
    if (!joins) rows.push_back({row.phase});
    for (size_t i = 0; i < row.cells.size(); ++i)
      std::ranges::move(row.cells[i], std::back_inserter(rows.back().cells[i]));
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
  const bool on_demand =
      std::ranges::any_of(listed, [](auto& one) { return one.kind == Kind::Gather && !one.foreseen; });
  const size_t more = parts.size() > kMost ? parts.size() - (kMost - 1) : 0;
  parts.resize(parts.size() - more);
  if (more > 0) parts.back() += fmt::format(" and {} more", more);
  return fmt::format("{}{}", fmt::join(parts, ", "), on_demand ? kOnDemand : "");
}

std::string table_of(const std::vector<StepRow>& rows, const Names& names) {
  std::vector<Table::Row> texts;
  for (const auto& [phase, cells] : rows) {
    texts.push_back({phase});
    for (const Actions& cell : cells) texts.back().push_back(list(cell, names));
  }
  // By how much the units of row b are those of row a moved on.
  const auto shift = [&](size_t a, size_t b) -> std::optional<int> {
    const Actions &from = rows[a].cells[0], &to = rows[b].cells[0];
    const int by = from.empty() || to.empty() ? 0 : to[0].unit - from[0].unit;
    const auto moved = [&](const Action& x, const Action& y) { return y.unit - x.unit == by; };
    const auto alike = [&](const Actions& x, const Actions& y) { return std::ranges::equal(x, y, moved); };
    const bool all = rows[a].phase == rows[b].phase && std::ranges::equal(rows[a].cells, rows[b].cells, alike);
    return all ? std::optional(by) : std::nullopt;
  };
  Table table({{"phase"}, {"unit"}, {"gathers"}, {"releases"}, {"reduces"}, {"has reduced"}});
  table.add(texts, shift, 1);
  return table.text();
}

std::string step_text(const ScheduleFacts& facts, const Names& names) {
  std::vector<std::pair<int, std::vector<StepRow>>> parts;  // how many micro-batches, and what happens in each
  int count = 0, last = 0;
  for (const auto& [alike, full_before, events] : facts.step.micro_batches) {
    std::vector<StepRow> rows = rows_of(events, facts);
    if (parts.empty() || parts.back().second != rows) parts.emplace_back(0, std::move(rows));
    parts.back().first += alike;
    count += alike;
  }
  if (parts.empty()) return "\nno step is recorded yet\n";
  StepRow behind{"step"};
  for (const Action& action : facts.step.behind) add(action, facts, behind);
  if (!behind.idle()) parts.back().second.push_back(std::move(behind));
  std::string text;
  for (const auto& [alike, rows] : parts) {
    last += alike;
    if (alike > 1) text += fmt::format("\nmicro-batches {} to {} of {}, each", last - alike + 1, last, count);
    if (alike == 1 && count > 1) text += fmt::format("\nmicro-batch {} of {}", last, count);
    text += "\n" + table_of(rows, names);
  }
  return text + (text.find(kOnDemand) != std::string::npos ? "* on demand: there was no plan that it followed\n" : "");
}

}  // namespace

std::string schedule_text(const ScheduleFacts& facts) {
  const bool groups = facts.shards > 1 && facts.shards < facts.ranks;
  std::string text = fmt::format("{} on {}{}: {}", facts.strategy, counted(facts.ranks, "rank"),
                                 groups ? fmt::format(" in groups of {}", facts.shards) : "",
                                 counted(std::ssize(facts.units), "unit"));
  const std::string full =
      facts.buffers > 0 ? fmt::format("{} buffers for full units", facts.buffers) : "gathers copy nothing";
  if (facts.ranks > 1) text += fmt::format(", {}, {} buffers for gradients", full, facts.gradient_buffers);
  const Names names = short_names(facts);
  const StepCounts counts = counts_of(facts);
  text += "\n\n" + units_table(facts, counts) + "\n" + totals_text(facts, counts) + step_text(facts, names);
  if (facts.evaluation.empty()) return text;
  Actions uses;
  for (const schedule::UnitId unit : facts.evaluation) uses.push_back({.kind = {}, .unit = unit});
  return text + fmt::format("\nwithout gradients: {}\n", list(uses, names));
}

}  // namespace fsdp::report
