// A report of one or more runs: one HTML page that needs nothing but itself, and asks nothing of any network.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "report/configuration.h"
#include "report/run.h"

namespace trainer {

struct PageOptions {
  std::vector<OptionGroup> groups = {};  // of the configuration
  int reload_seconds = 0;                // after which the page loads itself again; 0: never
};

// The page. Runs, at least one, share the plots, and each of the first eight has a colour of its own.
std::string report_page(const std::vector<RunFolder>& runs, const PageOptions& options = {});

// Reads the runs, and names those of one name by their paths. Throws fsdp::Error that names all folders that cannot be
// read.
std::vector<RunFolder> read_runs(const std::vector<std::filesystem::path>& folders);

// Reads the runs and writes their page to `file`, whole or not at all. Throws fsdp::Error as read_runs does, or says
// why the file cannot be written.
void write_report(const std::vector<std::filesystem::path>& folders, const std::filesystem::path& file,
                  const std::vector<OptionGroup>& groups = {});

}  // namespace trainer
