#include "report/page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fsdp/error.h>

#include <map>

#include "console/units.h"
#include "files/durable_file.h"
#include "report/assets.h"
#include "report/curves.h"
#include "report/details.h"
#include "report/facts.h"
#include "report/status.h"
#include "report/summary.h"
#include "report/text.h"

namespace trainer {

namespace fs = std::filesystem;

namespace {

// "{{name}}" in the text becomes the value of that name. Values are not looked at again, whatever they say.
std::string filled(std::string_view text, const std::map<std::string, std::string, std::less<>>& values) {
  std::string result;
  for (size_t begin; (begin = text.find("{{")) != std::string_view::npos;) {
    const size_t end = text.find("}}", begin);
    result += text.substr(0, begin);
    result += values.at(std::string(text.substr(begin + 2, end - begin - 2)));
    text.remove_prefix(end + 2);
  }
  result += text;
  return result;
}

std::string joined_assets(std::initializer_list<const char*> names) {
  std::string result;
  for (const char* name : names) result += asset(name);
  return result;
}

std::string title_of(const std::vector<RunFolder>& runs) {
  if (runs.size() == 1) return runs.front().name;
  std::vector<std::string> names;
  for (const RunFolder& run : runs) names.push_back(run.name);
  constexpr size_t kNamed = 4;
  const size_t more = names.size() > kNamed ? names.size() - kNamed : 0;
  names.resize(names.size() - more);
  return fmt::format("{}{}", fmt::join(names, ", "), more > 0 ? fmt::format(" and {} more", more) : "");
}

std::string subtitle_of(const std::vector<RunFolder>& runs) {
  return runs.size() > 1 ? fmt::format("{} runs of fsdp-train", runs.size()) : progress_of(runs.front());
}

// Two folders of one name in different places would be one curve to the eye.
void tell_apart(std::vector<RunFolder>& runs, const std::vector<fs::path>& folders) {
  std::map<std::string, int> uses;
  for (const RunFolder& run : runs) ++uses[run.name];
  for (size_t i = 0; i < runs.size(); ++i) {
    if (uses[runs[i].name] > 1) runs[i].name = folders[i].string();
  }
}

}  // namespace

std::string report_page(const std::vector<RunFolder>& runs, const PageOptions& options) {
  const bool is_one = runs.size() == 1;
  const std::string reload =
      options.reload_seconds > 0 ? fmt::format(" data-reload=\"{}\"", options.reload_seconds) : "";
  return filled(asset("page.html"),
                {{"title", html(title_of(runs))},
                 {"subtitle", html(subtitle_of(runs))},
                 {"status", is_one ? status_label(runs.front().status) : ""},
                 {"notice", is_one ? notice_of(runs.front()) : ""},
                 {"reload", reload},
                 {"style", joined_assets({"colours.css", "style.css", "charts.css", "narrow.css", "print.css"})},
                 {"summary", summary_of(runs)},
                 {"own_facts", is_one ? facts_section(runs) : ""},
                 {"compared_facts", is_one ? "" : facts_section(runs)},
                 {"problems", problems_section(runs)},
                 {"configuration", configuration_section(runs, options.groups)},
                 {"events", events_section(runs)},
                 {"checkpoints", checkpoints_section(runs)},
                 {"samples", samples_section(runs)},
                 {"curves", curves_json(runs)},
                 {"script", joined_assets({"numbers.js", "elements.js", "series.js", "scales.js", "drawing.js",
                                           "choices.js", "panel.js", "crosshair.js", "zoom.js", "export.js", "chart.js",
                                           "memory.js", "settings.js", "page.js"})}});
}

std::vector<RunFolder> read_runs(const std::vector<fs::path>& folders) {
  std::vector<RunFolder> runs;
  std::vector<std::string> problems;
  for (const fs::path& folder : folders) {
    try {
      runs.push_back(read_run(folder));
    } catch (const fsdp::Error& error) {
      problems.push_back(error.what());
    }
  }
  if (!problems.empty()) throw fsdp::Error(fmt::format("{}", fmt::join(problems, "\n")));
  tell_apart(runs, folders);
  return runs;
}

void write_report(const std::vector<fs::path>& folders, const fs::path& file, const std::vector<OptionGroup>& groups) {
  fsdp::files::write_durably(file, report_page(read_runs(folders), {.groups = groups}));
}

}  // namespace trainer
