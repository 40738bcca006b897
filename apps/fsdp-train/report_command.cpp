#include "fsdp-train/report_command.h"

#include <fmt/format.h>

#include <filesystem>

#include "console/terminal.h"
#include "options/option_table.h"
#include "options/settings.h"
#include "options/training_defaults.h"
#include "report/page.h"
#include "report/watch.h"

namespace trainer {

namespace fs = std::filesystem;

namespace {

// As --help has them.
std::vector<OptionGroup> option_groups() {
  std::vector<OptionGroup> groups;
  RunOptions defaults;
  fill_training_defaults(defaults);
  for (const Row& row : option_rows()) {
    if (!row.in_file() || !row.is_for(Command::Train)) continue;
    if (groups.empty() || groups.back().title != row.title) groups.push_back({.title = row.title, .options = {}});
    groups.back().options.push_back({.name = row.key(), .default_value = setting_text(row, defaults)});
  }
  return groups;
}

fs::path page_of(const ReportOptions& options) {
  if (!options.output.empty()) return options.output;
  return fs::path(options.runs.size() == 1 ? options.runs[0] : ".") / "report.html";
}

}  // namespace

std::vector<std::string> report_problems(const ReportOptions& options) {
  std::vector<std::string> problems;
  for (const std::string& run : options.runs) {
    std::error_code ignored;
    if (!fs::is_directory(run, ignored)) problems.push_back(fmt::format("'{}' is no folder.", run));
  }
  return problems;
}

int run_report(const ReportOptions& options) {
  const std::vector<fs::path> folders(options.runs.begin(), options.runs.end());
  const fs::path page = page_of(options);
  const auto tell = [](const std::string& text) { print(text + "\n"); };
  int signal = 0;
  if (options.watch) {
    signal = watch_report(folders, page, {.groups = option_groups(), .tell = tell});
  } else {
    write_report(folders, page, option_groups());
  }
  if (signal != 0) return 128 + signal;
  print(page.string() + "\n");
  return 0;
}

}  // namespace trainer
