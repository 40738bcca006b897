// The table of a step: what each use of a unit causes.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/repetition.h"
#include "base/table.h"
#include "engine/report_tables.h"

namespace fsdp::engine {

namespace {

using schedule::Action;
using schedule::Event;
using schedule::UnitId;

struct Row {
  std::string_view phase;
  std::vector<UnitId> uses;  // one, or several one after the other that caused nothing
  schedule::Actions gathers, releases, reductions, ends;

  bool caused_nothing() const { return gathers.empty() && releases.empty() && reductions.empty() && ends.empty(); }
};

void add(Row& row, const Action& action) {
  switch (action.kind) {
    case Action::Kind::Gather:
      return row.gathers.push_back(action);
    case Action::Kind::Release:
      return row.releases.push_back(action);
    case Action::Kind::Reduce:
      return row.reductions.push_back(action);
    case Action::Kind::WaitReduce:
    case Action::Kind::WaitBuffer:
      return row.ends.push_back(action);
    case Action::Kind::WaitGather:
    case Action::Kind::OpenGradient:
      return;
  }
}

bool is_gather(const Action& action) {
  return action.kind == Action::Kind::Gather || action.kind == Action::Kind::WaitGather ||
         action.kind == Action::Kind::Release;
}

// Micro-batches that then differ in nothing are one.
schedule::Step without_gathers(const schedule::Step& step) {
  schedule::Step told;
  for (const auto& part : step.micro_batches) {
    std::vector<Event> events = part.events;
    std::erase_if(events, [](const Event& one) { return one.kind == Event::Kind::Action && is_gather(one.action); });
    auto& before = told.micro_batches;
    if (!before.empty() && before.back().events == events) {
      before.back().count += part.count;
    } else {
      before.push_back({.count = part.count, .full_before = {}, .events = std::move(events)});
    }
  }
  std::copy_if(step.behind.begin(), step.behind.end(), std::back_inserter(told.behind), std::not_fn(is_gather));
  return told;
}

std::vector<Row> rows_of(const std::vector<Event>& events) {
  std::vector<Row> rows{{"", {}, {}, {}, {}, {}}};  // of a gradient that came before any use
  const auto join_idle = [&] {
    const size_t last = rows.size() - 1;
    if (last == 0 || rows[last].phase != rows[last - 1].phase) return;
    if (!rows[last].caused_nothing() || !rows[last - 1].caused_nothing()) return;
    rows[last - 1].uses.insert(rows[last - 1].uses.end(), rows[last].uses.begin(), rows[last].uses.end());
    rows.pop_back();
  };
  for (const auto& [kind, mode, action] : events) {
    if (kind == Event::Kind::Action) {
      add(rows.back(), action);
      continue;
    }
    join_idle();
    const bool end = kind == Event::Kind::EndOfBackward;
    rows.push_back({end ? "end" : mode == schedule::Mode::Backward ? "backward" : "forward", {}, {}, {}, {}, {}});
    if (!end) rows.back().uses.push_back(action.unit);
  }
  join_idle();
  if (rows.front().caused_nothing()) rows.erase(rows.begin());
  return rows;
}

// By how much the units of `b` are those of `a` moved on.
std::optional<int> shift_between(const Row& a, const Row& b) {
  if (a.phase != b.phase || a.uses.empty() || b.uses.empty()) return std::nullopt;
  const int shift = b.uses[0] - a.uses[0];
  const auto unit_of = [](const auto& one) {
    if constexpr (std::is_same_v<std::decay_t<decltype(one)>, Action>)
      return one.unit;
    else
      return one;
  };
  const auto moved = [&](const auto& from, const auto& to) {
    return std::equal(from.begin(), from.end(), to.begin(), to.end(),
                      [&](const auto& x, const auto& y) { return unit_of(y) - unit_of(x) == shift; });
  };
  const bool same = moved(a.uses, b.uses) && moved(a.gathers, b.gathers) && moved(a.releases, b.releases) &&
                    moved(a.reductions, b.reductions) && moved(a.ends, b.ends);
  return same ? std::optional(shift) : std::nullopt;
}

constexpr size_t kMostListed = 4;

std::string joined(std::vector<std::string> parts) {
  if (parts.size() <= kMostListed) return fmt::format("{}", fmt::join(parts, ", "));
  const size_t left_out = parts.size() - (kMostListed - 1);
  parts.resize(kMostListed - 1);
  return fmt::format("{} and {} more", fmt::join(parts, ", "), left_out);
}

// Of what happens at one time: in the order of their numbers, which lists shorter.
std::vector<UnitId> units_of(const schedule::Actions& actions) {
  std::vector<UnitId> units;
  for (const Action& action : actions) units.push_back(action.unit);
  std::sort(units.begin(), units.end());
  return units;
}

// "encoder.layers.3" is layers.3 here, where all names with dots begin with "encoder.".
std::vector<UnitFacts> without_common_prefix(std::vector<UnitFacts> units) {
  std::optional<std::string> prefix;
  for (const UnitFacts& unit : units) {
    const size_t last = unit.name.rfind('.');
    if (last == std::string::npos) continue;
    const size_t before = unit.name.rfind('.', last - 1);
    std::string own = last == 0 || before == std::string::npos ? "" : unit.name.substr(0, before + 1);
    if (prefix && *prefix != own) return units;
    prefix = std::move(own);
  }
  for (UnitFacts& unit : units) {
    if (prefix && unit.name.starts_with(*prefix)) unit.name.erase(0, prefix->size());
  }
  return units;
}

class Writer {
 public:
  Writer(const std::vector<UnitFacts>& units, const ReportOptions& options) : units_(units), options_(options) {}

  std::string table(const std::vector<Row>& rows) {
    Table table({{"phase"}, {"unit"}, {"gathers"}, {"releases"}, {"reduces"}, {"has reduced"}});
    const auto shift = [&](size_t a, size_t b) { return shift_between(rows[a], rows[b]); };
    for (const auto& [begin, shown, repeated] : find_repetitions(rows.size(), shift)) {
      for (size_t i = begin; i < begin + shown; ++i) {
        const Row& row = rows[i];
        table.add({std::string(row.phase), list_units(units_, row.uses), in_buffers(row.gathers, options_.buffers),
                   list_units(units_, units_of(row.releases)), in_buffers(row.reductions, options_.gradient_buffers),
                   list_units(units_, units_of(row.ends))});
      }
      if (repeated > 0) {
        const Row& last = rows[begin + shown + repeated - 1];
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
    return (buffers ? joined(std::move(parts)) : list_units(units_, units_of(actions))) + (unforeseen ? " *" : "");
  }

  const std::vector<UnitFacts>& units_;
  const ReportOptions& options_;
  bool on_demand_ = false;  // some gather was
};

}  // namespace

std::string list_units(const std::vector<UnitFacts>& units, const std::vector<UnitId>& listed) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < listed.size();) {
    size_t end = i + 1;
    const int step = end < listed.size() ? listed[end] - listed[i] : 0;
    while (std::abs(step) == 1 && end < listed.size() && listed[end] - listed[end - 1] == step) ++end;
    if (end - i >= 3) {
      parts.push_back(fmt::format("{} to {}", units[listed[i]].name, units[listed[end - 1]].name));
    } else {
      end = i + 1;
      parts.push_back(units[listed[i]].name);
    }
    i = end;
  }
  return joined(std::move(parts));
}

std::string step_table(const std::vector<UnitFacts>& units, const schedule::Step& recorded,
                       const ReportOptions& options) {
  const std::vector<UnitFacts> shortly_named = without_common_prefix(units);
  const schedule::Step step = options.gathers ? recorded : without_gathers(recorded);
  Writer writer(shortly_named, options);
  int count = 0, number = 0;
  for (const auto& part : step.micro_batches) count += part.count;
  std::string text;
  for (const auto& part : step.micro_batches) {
    std::vector<Row> rows = rows_of(part.events);
    number += part.count;
    if (number == count) {
      rows.push_back({"step", {}, {}, {}, {}, {}});
      for (const Action& action : step.behind) add(rows.back(), action);
      if (rows.back().caused_nothing()) rows.pop_back();
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
