// The table of the units, and what they come to together.
#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "base/repetition.h"
#include "base/table.h"
#include "engine/report_tables.h"

namespace fsdp::engine {

namespace {

using report::Activity;
using schedule::Action;

struct Counts {
  int64_t gathers = 0, reductions = 0;
  bool operator==(const Counts&) const = default;
};

std::vector<Counts> counts_of(const schedule::Step& step, size_t units, bool gathers) {
  std::vector<Counts> counts(units);
  const auto count = [&](const Action& action, int times) {
    if (action.kind == Action::Kind::Gather && gathers) counts[action.unit].gathers += times;
    if (action.kind == Action::Kind::Reduce) counts[action.unit].reductions += times;
  };
  for (const auto& part : step.micro_batches) {
    for (const auto& event : part.events) {
      if (event.kind == schedule::Event::Kind::Action) count(event.action, part.count);
    }
  }
  for (const Action& action : step.behind) count(action, 1);
  return counts;
}

struct Peak {
  int64_t units = 0, bytes = 0;  // each at its largest
};

Peak peak_of(const std::vector<UnitFacts>& units, const schedule::Step& step) {
  Peak peak;
  for (const auto& part : step.micro_batches) {
    std::vector<uint8_t> full = part.full_before;
    const auto note = [&] {
      Peak now;
      for (size_t i = 0; i < full.size(); ++i) {
        now.units += full[i];
        now.bytes += full[i] ? units[i].full_bytes : 0;
      }
      peak = {std::max(peak.units, now.units), std::max(peak.bytes, now.bytes)};
    };
    note();
    for (const auto& [kind, mode, action] : part.events) {
      if (kind != schedule::Event::Kind::Action) continue;
      if (action.kind == Action::Kind::Release) full[action.unit] = 0;
      if (action.kind == Action::Kind::Gather) full[action.unit] = 1;
      note();
    }
  }
  return peak;
}

std::string number(int64_t value) {
  std::string digits = fmt::format("{}", value);
  for (auto place = static_cast<int>(digits.size()) - 3; place > 0; place -= 3) digits.insert(place, ",");
  return digits;
}

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

std::string time_a_step(const ReportOptions& options, int64_t nanoseconds) {
  return fmt::format("{:.2f} ms", static_cast<double>(nanoseconds) / 1e6 / static_cast<double>(options.steps));
}

int64_t waited_in(const ReportOptions& options, Activity wait, size_t begin, size_t end) {
  int64_t sum = 0;
  for (size_t i = begin; i < end; ++i) sum += options.waits->waited(wait, static_cast<int>(i)).nanoseconds;
  return sum;
}

}  // namespace

std::string units_table(const std::vector<UnitFacts>& units, const schedule::Step& step, const ReportOptions& options) {
  using Align = Table::Align;
  const std::vector<Counts> counts = counts_of(step, units.size(), options.gathers);
  const auto alike = [&](size_t a, size_t b) -> std::optional<int> {
    const auto facts = [&](size_t i) {
      return std::tuple(units[i].numel, units[i].gather_bytes, units[i].reduction_bytes, counts[i].gathers,
                        counts[i].reductions);
    };
    return facts(a) == facts(b) ? std::optional(0) : std::nullopt;
  };
  Table table({{"unit"},
               {"parameters", Align::Right},
               {"a gather", Align::Right},
               {"a step", Align::Right},
               {"a reduction", Align::Right},
               {"a step", Align::Right},
               {"gather waits", Align::Right},
               {"reduce waits", Align::Right}});
  const auto waits = [&](Activity wait, size_t begin, size_t end) {
    return options.waits ? time_a_step(options, waited_in(options, wait, begin, end)) : std::string();
  };
  const auto gather_waits = [&](size_t begin, size_t end) {
    return options.gathers ? waits(Activity::WaitGather, begin, end) : std::string();
  };
  for (const auto& [begin, shown, repeated] : find_repetitions(units.size(), alike)) {
    for (size_t i = begin; i < begin + shown; ++i) {
      table.add({units[i].name, number(units[i].numel), options.gathers ? bytes(units[i].gather_bytes) : "",
                 options.gathers ? fmt::format("{} x", counts[i].gathers) : "", bytes(units[i].reduction_bytes),
                 fmt::format("{} x", counts[i].reductions), gather_waits(i, i + 1),
                 waits(Activity::WaitReduce, i, i + 1)});
    }
    if (repeated == 0) continue;
    const size_t first = begin + shown, end = first + repeated;
    table.add({fmt::format("{} more, to {}", repeated, units[end - 1].name), "", "", "", "", "",
               gather_waits(first, end), waits(Activity::WaitReduce, first, end)});
  }
  return table.text();
}

std::string step_totals(const std::vector<UnitFacts>& units, const schedule::Step& step, const ReportOptions& options) {
  Counts times;
  int64_t gathered = 0, reduced = 0, numel = 0;
  const std::vector<Counts> counts = counts_of(step, units.size(), options.gathers);
  for (size_t i = 0; i < units.size(); ++i) {
    numel += units[i].numel;
    times.gathers += counts[i].gathers;
    times.reductions += counts[i].reductions;
    gathered += counts[i].gathers * units[i].gather_bytes;
    reduced += counts[i].reductions * units[i].reduction_bytes;
  }
  std::string text = fmt::format("{} parameters; this rank gets, in a step: ", number(numel));
  if (options.gathers) text += fmt::format("{} in {}, ", bytes(gathered), counted(times.gathers, "gather"));
  text += fmt::format("{} in {}\n", bytes(reduced), counted(times.reductions, "reduction"));
  if (options.gathers) {
    const Peak peak = peak_of(units, step);
    text += fmt::format("full at once: at most {}, {}\n", counted(peak.units, "unit"), bytes(peak.bytes));
  }
  if (!options.waits) return text;
  const auto waited = [&](Activity wait) { return options.waits->waited(wait).nanoseconds; };
  const auto of_units = [&](Activity wait) { return waited_in(options, wait, 0, units.size()); };
  const auto time = [&](int64_t nanoseconds) { return time_a_step(options, nanoseconds); };
  text += fmt::format("this rank waits, in a step, the mean of {}: ", options.steps);
  if (options.gathers) text += fmt::format("{} for gathers, ", time(of_units(Activity::WaitGather)));
  text += fmt::format("{} for reductions,\n  {} for agreement of all ranks, {} for readers of the shards\n",
                      time(of_units(Activity::WaitReduce) + waited(Activity::WaitReplicas)),
                      time(waited(Activity::WaitAgreement)), time(waited(Activity::WaitReaders)));
  return text;
}

}  // namespace fsdp::engine
