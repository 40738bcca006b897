// The report of runs that go on: written again every few seconds, for a page that loads itself again.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "report/configuration.h"

namespace trainer {

struct WatchOptions {
  std::chrono::milliseconds interval = std::chrono::seconds(5);
  std::vector<OptionGroup> groups = {};
  std::function<void(const std::string&)> tell = [](const std::string&) {};
};

// Returns when none of the runs goes on any more, or after SIGINT, SIGTERM or SIGHUP; the last page that it writes does
// not load itself again. Waits for the first step of a run that has none yet. Returns the signal, 0 for none. Throws
// fsdp::Error as write_report does. The calling thread, which has to be the only one, does not take these signals
// meanwhile.
int watch_report(const std::vector<std::filesystem::path>& folders, const std::filesystem::path& file,
                 const WatchOptions& options);

}  // namespace trainer
