#include "report/configuration.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "report/text.h"

namespace trainer {

namespace {

// Names of all runs that belong to no group, each where it first appears.
OptionGroup group_of_rest(const std::vector<RunFolder>& runs, const std::vector<OptionGroup>& groups) {
  std::set<std::string> seen;
  for (const OptionGroup& group : groups) {
    for (const KnownOption& option : group.options) seen.insert(option.name);
  }
  OptionGroup rest{.title = groups.empty() ? "" : "Derived values", .options = {}};
  for (const RunFolder& run : runs) {
    for (const auto& [name, value] : run.configuration) {
      if (seen.insert(name).second) rest.options.push_back({.name = name, .default_value = ""});
    }
  }
  return rest;
}

const std::string* setting_of(const RunFolder& run, const std::string& name) {
  for (const auto& [key, value] : run.configuration) {
    if (key == name) return &value;
  }
  return nullptr;
}

bool is_unset(const std::string* value) { return value == nullptr || value->empty() || *value == "null"; }

// A value as it stands; one of several lines, or of blanks alone, as JSON has it.
std::string shown_value(const std::string& value) {
  const bool is_blank = value.find_first_not_of(" \t\r\n") == std::string::npos;
  const bool has_lines = value.find('\n') != std::string::npos;
  return html(is_blank || has_lines ? json_string(value) : value);
}

struct SettingRow {
  std::string html;  // empty: no run knows the name
  bool is_unset = false;
};

SettingRow setting_row(const std::vector<RunFolder>& runs, const KnownOption& option, bool has_defaults) {
  const std::string* first = setting_of(runs.front(), option.name);
  bool is_known = false, all_unset = true, all_default = has_defaults, differs = false;
  std::string cells;
  for (const RunFolder& run : runs) {
    const std::string* value = setting_of(run, option.name);
    is_known = is_known || value != nullptr;
    all_unset = all_unset && is_unset(value);
    all_default = all_default && value != nullptr && *value == option.default_value;
    differs = differs || (value == nullptr) != (first == nullptr) || (value != nullptr && *value != *first);
    cells += fmt::format("<td>{}</td>", is_unset(value) ? "–" : shown_value(*value));
  }
  if (!is_known) return {};
  const char* kind = differs       ? " class=\"differs\""
                     : all_unset   ? " class=\"unset\""
                     : all_default ? " class=\"default\""
                                   : "";
  return {.html = fmt::format("<tr{}><th scope=\"row\">{}</th>{}</tr>\n", kind, html(option.name), cells),
          .is_unset = all_unset && !differs};
}

std::string heads_of(const std::vector<RunFolder>& runs) {
  if (runs.size() < 2) return "";
  std::string heads;
  for (size_t i = 0; i < runs.size(); ++i) {
    heads += fmt::format("<th><span class=\"swatch run-{}\"></span>{}</th>", i % 8, html(runs[i].name));
  }
  return fmt::format("<thead><tr><th></th>{}</tr></thead>\n", heads);
}

std::string group_table(const std::vector<RunFolder>& runs, const OptionGroup& group, bool has_defaults) {
  std::string rows;
  bool all_unset = true;
  for (const KnownOption& option : group.options) {
    const SettingRow row = setting_row(runs, option, has_defaults);
    rows += row.html;
    all_unset = all_unset && (row.html.empty() || row.is_unset);
  }
  if (rows.empty()) return "";
  const std::string title = group.title.empty() ? "" : fmt::format("<h3>{}</h3>\n", html(group.title));
  return fmt::format(
      "<div class=\"card group{}\">\n{}<div class=\"scroll\"><table>\n{}<tbody>{}</tbody></table></div></div>\n",
      all_unset ? " unset" : "", title, heads_of(runs), rows);
}

std::string check_box(const char* id, const char* text) {
  return fmt::format("<label class=\"choice\"><input type=\"checkbox\" id=\"{}\"> {}</label>\n", id, text);
}

}  // namespace

std::string configuration_section(const std::vector<RunFolder>& runs, const std::vector<OptionGroup>& groups) {
  std::string tables;
  for (const OptionGroup& group : groups) tables += group_table(runs, group, /*has_defaults=*/true);
  tables += group_table(runs, group_of_rest(runs, groups), /*has_defaults=*/false);
  if (tables.empty()) return "";
  std::string choices = check_box("show-unset", "show options without a value");
  if (runs.size() > 1) choices += check_box("only-differences", "only what differs");
  return fmt::format(
      "<section id=\"configuration\">\n<h2>Configuration</h2>\n<div class=\"choices\">\n{}</div>\n"
      "<div id=\"settings\" class=\"{}\">\n{}</div></section>\n",
      choices, runs.size() > 1 ? "hide-unset several" : "hide-unset", tables);
}

}  // namespace trainer
