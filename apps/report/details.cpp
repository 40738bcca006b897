#include "report/details.h"

#include <fmt/format.h>

#include <algorithm>

#include "console/units.h"
#include "report/text.h"

namespace trainer {

namespace {

constexpr size_t kShownEvents = 200, kShownCheckpoints = 100;

std::string section(const char* id, const char* title, const std::string& content) {
  if (content.empty()) return "";
  return fmt::format("<section id=\"{}\">\n<h2>{}</h2>\n{}</section>\n", id, title, content);
}

// The last of each folder, except removed ones.
std::vector<CheckpointRecord> checkpoints_there(const RunMetrics& metrics) {
  std::vector<CheckpointRecord> there;
  const auto forget = [&](const std::string& folder) {
    std::erase_if(there, [&](const CheckpointRecord& other) { return other.folder == folder; });
  };
  for (const CheckpointRecord& saved : metrics.checkpoints) {
    forget(saved.folder);
    for (const std::string& folder : saved.removed) forget(folder);
    there.push_back(saved);
  }
  return there;
}

std::string checkpoint_row(const CheckpointRecord& saved) {
  return fmt::format(
      "<tr><td>{}</td><td class=\"number\">step {}</td><td class=\"number\">{}</td><td class=\"number\">saved in "
      "{:.3g} "
      "s</td></tr>\n",
      html(saved.folder), grouped(saved.step), short_bytes(static_cast<size_t>(std::max<int64_t>(saved.bytes, 0))),
      saved.save_seconds);
}

std::string heading_of(const std::vector<RunFolder>& runs, size_t i) {
  if (runs.size() == 1) return "";
  return fmt::format("<h3><span class=\"swatch run-{}\"></span>{}</h3>\n", i % 8, html(runs[i].name));
}

}  // namespace

std::vector<Event> shown_events(const RunMetrics& metrics) {
  const size_t first = metrics.events.size() - std::min(metrics.events.size(), kShownEvents);
  return {metrics.events.begin() + static_cast<std::ptrdiff_t>(first), metrics.events.end()};
}

std::string events_section(const std::vector<RunFolder>& runs) {
  std::string content;
  for (size_t i = 0; i < runs.size(); ++i) {
    const std::vector<Event> shown = shown_events(runs[i].metrics);
    if (shown.size() < runs[i].metrics.events.size()) {
      content += fmt::format("<p>The last {} of {} events of {}.</p>\n", shown.size(), runs[i].metrics.events.size(),
                             html(runs[i].name));
    }
    std::string rows;
    for (const Event& event : shown) {
      rows +=
          fmt::format("<tr><td class=\"number\">step {}</td><td>{}</td></tr>\n", grouped(event.step), html(event.text));
    }
    if (rows.empty()) continue;
    content += heading_of(runs, i);
    content += fmt::format("<div class=\"scroll tall\"><table><tbody>{}</tbody></table></div>\n", rows);
  }
  return section("events", "Events", content);
}

std::string checkpoints_section(const std::vector<RunFolder>& runs) {
  std::string content;
  for (size_t i = 0; i < runs.size(); ++i) {
    const std::vector<CheckpointRecord> there = checkpoints_there(runs[i].metrics);
    if (there.empty()) continue;
    const size_t first = there.size() - std::min(there.size(), kShownCheckpoints);
    content += heading_of(runs, i);
    if (first > 0) content += fmt::format("<p>The last {} of {}.</p>\n", there.size() - first, there.size());
    std::string rows;
    for (size_t k = first; k < there.size(); ++k) rows += checkpoint_row(there[k]);
    content += fmt::format("<div class=\"scroll tall\"><table><tbody>{}</tbody></table></div>\n", rows);
  }
  return section("checkpoints", "Checkpoints", content);
}

std::string samples_section(const std::vector<RunFolder>& runs) {
  std::string content;
  for (size_t i = 0; i < runs.size(); ++i) {
    for (const Sample& sample : runs[i].samples) {
      content += fmt::format(
          "<figure class=\"sample\"><figcaption><span class=\"swatch run-{}\"></span>{}</figcaption>"
          "<pre>{}</pre></figure>\n",
          i % 8, html(runs[i].name + "/" + sample.file), html(sample.text));
    }
  }
  return section("samples", "Samples", content);
}

std::string problems_section(const std::vector<RunFolder>& runs) {
  std::string items;
  for (const RunFolder& run : runs) {
    for (const std::string& problem : run.metrics.problems) items += fmt::format("<li>{}</li>\n", html(problem));
  }
  return section("problems", "Problems", items.empty() ? "" : "<ul>\n" + items + "</ul>\n");
}

}  // namespace trainer
