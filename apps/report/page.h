// A report of one or more runs: one HTML page that needs nothing but itself, and asks nothing of any network.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "report/run.h"

namespace trainer {

// The page. Runs, at least one, share the plots, and each of the first eight has a colour of its own.
std::string report_page(const std::vector<RunFolder>& runs);

// Reads the runs and writes their page to `file`, whole or not at all. Throws fsdp::Error that names all folders that
// cannot be read, or says why the file cannot be written.
void write_report(const std::vector<std::filesystem::path>& folders, const std::filesystem::path& file);

}  // namespace trainer
