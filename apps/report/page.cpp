#include "report/page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fsdp/error.h>

#include <map>

#include "console/units.h"
#include "files/durable_file.h"
#include "report/curves.h"
#include "report/details.h"
#include "report/facts.h"
#include "report/frame.h"
#include "report/status.h"
#include "report/summary.h"

namespace trainer {

namespace fs = std::filesystem;

namespace {

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
  const std::string main = filled_asset("run.html", {{"notice", is_one ? notice_of(runs.front()) : ""},
                                                     {"summary", summary_of(runs)},
                                                     {"own_facts", is_one ? facts_section(runs) : ""},
                                                     {"compared_facts", is_one ? "" : facts_section(runs)},
                                                     {"problems", problems_section(runs)},
                                                     {"configuration", configuration_section(runs, options.groups)},
                                                     {"events", events_section(runs)},
                                                     {"checkpoints", checkpoints_section(runs)},
                                                     {"samples", samples_section(runs)}});
  return framed_page({.title = title_of(runs),
                      .subtitle = subtitle_of(runs),
                      .label = is_one ? status_label(runs.front().status) : "",
                      .main = main,
                      .data = curves_json(runs),
                      .programs = joined_assets({"numbers.js", "elements.js", "series.js", "scales.js", "drawing.js",
                                                 "choices.js", "panel.js", "crosshair.js", "zoom.js", "export.js",
                                                 "chart.js", "memory.js", "settings.js", "page.js"}),
                      .reload_seconds = options.reload_seconds});
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
