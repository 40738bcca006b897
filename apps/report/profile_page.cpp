#include "report/profile_page.h"

#include <fmt/format.h>

#include <algorithm>

#include "console/units.h"
#include "report/bars.h"
#include "report/frame.h"
#include "report/part_colours.h"
#include "report/profile_memory.h"
#include "report/profile_plan.h"
#include "report/step_shares.h"
#include "report/text.h"

namespace trainer {

namespace {

// If there are more, the longest bars are shown.
constexpr size_t kMostUnitBars = 200, kMostRankBars = 256;

constexpr const char* kOneColumn = "grid-template-columns: minmax(0, 1fr)";

struct ShownShare {
  const char* name;
  size_t colour;
  double TimeShares::*share;
};
constexpr ShownShare kShares[] = {{"computation", 0, &TimeShares::computation},
                                  {"exposed communication", 1, &TimeShares::exposed},
                                  {"waiting for the slowest rank", 4, &TimeShares::waiting},
                                  {"idle in the pipeline", 3, &TimeShares::idle},
                                  {"others", 9, &TimeShares::others}};

std::string in_milliseconds(double seconds) {
  const double value = 1000 * seconds;
  return fmt::format("{:.{}f} ms", value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0);
}

std::string in_bytes(double bytes) { return short_bytes(static_cast<size_t>(std::max(0.0, bytes))); }

std::string tile(const char* name, const std::string& value, const std::string& note = "") {
  return fmt::format("<div><dt>{}</dt><dd>{}{}</dd></div>\n", name, html(value),
                     note.empty() ? "" : fmt::format(" <small>{}</small>", html(note)));
}

std::string tiles(const Profile& profile, const MemoryPeak& peak, const StepShares& shares) {
  std::string text = tile("steps", grouped(shares.steps)) + tile("ranks", grouped(std::ssize(profile.ranks))) +
                     tile("a step", in_milliseconds(shares.mean.sum()));
  for (const ShownShare& shown : kShares) {
    const double seconds = shares.mean.*(shown.share);
    if (seconds > 0 || shown.share == &TimeShares::computation)
      text += tile(shown.name, fmt::format("{:.1f} %", 100 * seconds / std::max(shares.mean.sum(), 1e-12)),
                   in_milliseconds(seconds));
  }
  return fmt::format("<section id=\"summary\"><dl class=\"tiles\">\n{}</dl></section>\n",
                     text + tile("peak memory", in_bytes(static_cast<double>(peak.bytes)),
                                 fmt::format("rank {}", profile.ranks.at(peak.rank).rank)));
}

Bar time_bar(const NamedShares& shares) {
  Bar bar{.name = shares.name, .result = in_milliseconds(shares.time.sum())};
  for (const ShownShare& shown : kShares) bar.parts.push_back({shown.name, shown.colour, shares.time.*(shown.share)});
  return bar;
}

std::string bars_of(const std::string& title, const std::string& note, std::vector<NamedShares> all, size_t most) {
  const size_t left_out = all.size() > most ? all.size() - most : 0;
  if (left_out > 0) {
    std::ranges::sort(all, std::greater(), [](const NamedShares& one) { return one.time.sum(); });
    all.resize(most);
  }
  BarChart chart{.title = title,
                 .note = left_out > 0 ? fmt::format("{}; {} shorter ones are left out", note, left_out) : note,
                 .format = in_milliseconds};
  for (const NamedShares& one : all) chart.bars.push_back(time_bar(one));
  return bar_chart(chart);
}

std::string time_section(const StepShares& shares) {
  std::vector<NamedShares> units = shares.units;
  std::erase_if(units, [](const NamedShares& unit) { return unit.name == kAllUnits; });
  const auto longest = std::ranges::max_element(units, {}, [](const NamedShares& unit) { return unit.time.sum(); });
  std::string sentence = fmt::format("A step takes {}, the mean of {} and {}.", in_milliseconds(shares.mean.sum()),
                                     counted(shares.steps, "step"), counted(std::ssize(shares.ranks), "rank"));
  if (longest != units.end())
    sentence +=
        fmt::format(" The unit with the longest time is {}: {}.", longest->name, in_milliseconds(longest->time.sum()));
  const auto slowest = std::ranges::max_element(shares.waited_for);
  if (slowest != shares.waited_for.end() && *slowest > 0)
    sentence += fmt::format(" The ranks wait most for rank {}: {} of a step, all of them together.",
                            slowest - shares.waited_for.begin(), in_milliseconds(*slowest));
  return fmt::format(
      "<section id=\"time\"><h2>Time of a step</h2>\n<p>{}</p>\n<div class=\"side-by-side\" "
      "style=\"{}\">{}{}</div></section>\n",
      html(sentence), kOneColumn, bars_of("By rank", "per step", shares.ranks, kMostRankBars),
      bars_of("By unit", "per step, the mean of the ranks; without others", shares.units, kMostUnitBars));
}

std::string peaks_by_rank(const Profile& profile) {
  BarChart chart{.title = "Peak by rank", .note = "by part, at the rank's own peak", .format = in_bytes};
  for (size_t rank = 0; rank < std::min(profile.ranks.size(), kMostRankBars); ++rank) {
    const MemoryPeak peak = peak_of_rank(profile, rank);
    const TraceMemory memory = without_files(peak.memory);
    Bar bar{.name = fmt::format("rank {}", profile.ranks[rank].rank),
            .result = in_bytes(static_cast<double>(peak.bytes))};
    for (const char* part : kMemoryParts)
      bar.parts.push_back({part, part_colour(part), static_cast<double>(part_bytes(memory, part))});
    chart.bars.push_back(std::move(bar));
  }
  return chart.bars.size() > 1 ? bar_chart(chart) : "";
}

std::string memory_section(const Profile& profile, const MemoryPeak& peak) {
  return fmt::format(
      "<section id=\"memory\"><h2>Memory over time</h2>\n<p>{}</p>\n"
      "<noscript><p>The curves are drawn by a program on this page, and the browser does not run it.</p></noscript>\n"
      "<div id=\"controls\"><span id=\"zoom-hint\">Drag to zoom.</span>"
      "<button type=\"button\" id=\"zoom-reset\" hidden></button></div>\n"
      "<div class=\"side-by-side\" style=\"{}\"><div id=\"memory-charts\"></div>\n{}</div></section>\n",
      html(peak_sentences(profile, peak)), kOneColumn, peaks_by_rank(profile));
}

// The last row is that of the whole.
std::string compared_rows(std::vector<ComparedNumber> numbers, const ComparedNumber& whole,
                          std::string (*text_of)(double)) {
  std::string rows;
  numbers.push_back(whole);
  const auto row = [&](const std::string& name, double plan, double run) {
    rows += fmt::format(
        "<tr><th scope=\"row\">{}</th><td data-label=\"planned\"><span>{}</span></td>"
        "<td data-label=\"measured\"><span>{}</span></td>"
        "<td data-label=\"difference\"><span>{}{}</span></td></tr>\n",
        html(name), text_of(plan), text_of(run),
        run < plan   ? "−"
        : run > plan ? "+"
                     : "",
        text_of(std::abs(run - plan)));
  };
  for (const ComparedNumber& number : numbers) {
    if (number.planned != 0 || number.measured != 0) row(number.name, number.planned, number.measured);
  }
  return rows;
}

std::string compared_table(const char* title, const std::string& sentence, const std::string& rows) {
  return fmt::format(
      "<div><h3>{}</h3>\n<p>{}</p>\n<div class=\"scroll\"><table class=\"numbers cards\"><thead><tr><th>part</th>"
      "<th>planned</th><th>measured</th><th>difference</th></tr></thead>\n<tbody>{}</tbody></table></div></div>\n",
      title, html(sentence), rows);
}

std::string plan_section(const Profile& profile, const MemoryPeak& peak, const StepShares& shares) {
  if (!profile.plan) return "";
  const Comparison comparison = compare_with_plan(profile, peak, shares);
  const ComparedNumber whole_memory{"peak", profile.plan->peak_bytes, static_cast<double>(peak.bytes)};
  const ComparedNumber whole_step{"step", profile.plan->step_seconds.value_or(0), shares.mean.sum()};
  std::string text = compared_table("Memory at the peak", comparison.memory_sentences,
                                    compared_rows(comparison.memory, whole_memory, in_bytes));
  if (!comparison.time.empty())
    text += compared_table("A step", comparison.time_sentences,
                           compared_rows(comparison.time, whole_step, in_milliseconds));
  return fmt::format(
      "<section id=\"plan\"><h2>Planned and measured</h2>\n<div class=\"side-by-side\">{}</div></section>\n", text);
}

std::string notes_section(const Profile& profile) {
  std::string items;
  for (const std::string& note : profile.notes) items += fmt::format("<li>{}</li>\n", html(note));
  return items.empty() ? "" : fmt::format("<section id=\"notes\"><h2>Notes</h2>\n<ul>{}</ul></section>\n", items);
}

}  // namespace

std::string profile_page(const Profile& profile) {
  const MemoryPeak peak = highest_peak(profile);
  const StepShares shares = step_shares(profile.ranks, profile.ranks_of_replica);
  return framed_page(
      {.title = profile.title,
       .subtitle = profile.subtitle,
       .main = "<svg id=\"pencil\" hidden></svg>\n" + tiles(profile, peak, shares) + memory_section(profile, peak) +
               time_section(shares) + plan_section(profile, peak, shares) + notes_section(profile),
       .data = memory_course_json(profile, peak),
       .programs = joined_assets({"numbers.js", "elements.js", "series.js", "scales.js", "drawing.js", "choices.js",
                                  "panel.js", "crosshair.js", "zoom.js", "export.js", "memory.js", "profile.js"})});
}

}  // namespace trainer
