#include "report/details.h"

#include <fmt/format.h>

#include <algorithm>

#include "console/units.h"
#include "report/text.h"

namespace trainer {

namespace {

constexpr size_t kShownEvents = 200;

std::string section(const char* id, const char* title, const std::string& content) {
  if (content.empty()) return "";
  return fmt::format("<section id=\"{}\">\n<h2>{}</h2>\n{}</section>\n", id, title, content);
}

// Names of all runs, each where it first appears.
std::vector<std::string> configuration_names(const std::vector<RunFolder>& runs) {
  std::vector<std::string> names;
  for (const RunFolder& run : runs) {
    for (const auto& [name, value] : run.configuration) {
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  }
  return names;
}

std::string value_of(const RunFolder& run, const std::string& name) {
  for (const auto& [key, value] : run.configuration) {
    if (key == name) return value.empty() ? "(empty)" : value;
  }
  return "–";
}

std::string configuration_row(const std::vector<RunFolder>& runs, const std::string& name) {
  std::string cells;
  bool differs = false;
  for (const RunFolder& run : runs) {
    const std::string value = value_of(run, name);
    differs = differs || value != value_of(runs.front(), name);
    cells += fmt::format("<td>{}</td>", html(value));
  }
  return fmt::format("<tr{}><th scope=\"row\">{}</th>{}</tr>\n", differs ? " class=\"differs\"" : "", html(name),
                     cells);
}

}  // namespace

std::string configuration_section(const std::vector<RunFolder>& runs) {
  std::string rows, heads;
  for (const std::string& name : configuration_names(runs)) rows += configuration_row(runs, name);
  if (rows.empty()) return "";
  for (const RunFolder& run : runs) heads += fmt::format("<th>{}</th>", html(run.name));
  const std::string choice =
      runs.size() < 2 ? ""
                      : "<label class=\"choice\"><input type=\"checkbox\" id=\"only-differences\"> only what differs"
                        "</label>\n";
  const std::string head = runs.size() < 2 ? "" : fmt::format("<thead><tr><th></th>{}</tr></thead>\n", heads);
  return section("configuration", "Configuration",
                 fmt::format("{}<div class=\"scroll\"><table id=\"settings\">\n{}<tbody>{}</tbody></table></div>\n",
                             choice, head, rows));
}

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
    if (runs.size() > 1) {
      content += fmt::format("<h3><span class=\"swatch run-{}\"></span>{}</h3>\n", i % 8, html(runs[i].name));
    }
    content += fmt::format("<div class=\"scroll tall\"><table><tbody>{}</tbody></table></div>\n", rows);
  }
  return section("events", "Events", content);
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
  return section("problems", "What could not be read", items.empty() ? "" : "<ul>\n" + items + "</ul>\n");
}

}  // namespace trainer
