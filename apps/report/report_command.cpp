#include "report/report_command.h"

#include <fmt/format.h>
#include <fsdp/error.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>

#include "report/page.h"

namespace trainer {

namespace fs = std::filesystem;

namespace {

constexpr const char* kDescription =
    "fsdp-train report: writes one HTML page with the curves, the configuration and the samples of a run, or of "
    "several\n"
    "to compare. The page needs no network.";

// Every folder that is none, and every word too many.
std::vector<std::string> problems_with(const std::vector<std::string>& folders,
                                       const std::vector<std::string>& extras) {
  std::vector<std::string> problems;
  for (const std::string& extra : extras) problems.push_back(fmt::format("'{}' is no option of report.", extra));
  if (folders.empty()) problems.push_back("no run is named: fsdp-train report RUN...");
  std::error_code ignored;
  for (const std::string& folder : folders) {
    if (!fs::is_directory(folder, ignored)) problems.push_back(fmt::format("'{}' is no folder.", folder));
  }
  return problems;
}

}  // namespace

int report_command(std::vector<std::string> arguments) {
  CLI::App app(kDescription, "fsdp-train report");
  std::vector<std::string> folders;
  std::string output;
  app.add_option("RUN", folders, "folders of runs");
  app.add_option("--output", output, "the page [RUN/report.html; of several runs, report.html]");
  app.allow_extras();
  std::reverse(arguments.begin(), arguments.end());  // CLI11 takes them from the back
  std::vector<std::string> problems;
  try {
    app.parse(arguments);
    problems = problems_with(folders, app.remaining());
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", app.help());
    return 0;
  } catch (const CLI::ParseError& error) {
    problems.push_back(error.what());
  }
  if (!problems.empty()) {
    for (const std::string& problem : problems) fmt::print(stderr, "fsdp-train report: {}\n", problem);
    return 2;
  }
  if (output.empty()) output = folders.size() == 1 ? (fs::path(folders[0]) / "report.html").string() : "report.html";
  try {
    write_report({folders.begin(), folders.end()}, output);
  } catch (const fsdp::Error& error) {
    fmt::print(stderr, "fsdp-train report: {}\n", error.what());
    return 1;
  }
  fmt::print("{}\n", output);
  return 0;
}

}  // namespace trainer
