// The contents of a run folder, as far as a report shows them.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "metrics/metrics_reader.h"

namespace trainer {

struct Sample {
  std::string file, text;  // the text as the model wrote it, its first kSampleBytes
};

constexpr size_t kSampleBytes = size_t{16} << 10;
constexpr size_t kSamples = 12;  // the last ones, where there are more

enum class RunStatus { Unknown, Running, Finished, Stopped, Failed, BrokenOff };

struct RunFolder {
  std::string name;
  RunMetrics metrics = {};  // its problems are all of the run's
  // "model.width" and its value, in the order of config.json.
  std::vector<std::pair<std::string, std::string>> configuration = {};
  std::vector<Sample> samples = {};  // from the first to the last
  RunStatus status = RunStatus::Unknown;

  // The value of a name in the configuration; empty: there is none.
  std::string setting(const std::string& setting_name) const;
};

// Reads RUN/metrics.jsonl, RUN/config.json and RUN/sample*.txt, and looks at RUN/lock. Only the first has to be there:
// throws fsdp::Error where it cannot be read.
RunFolder read_run(const std::filesystem::path& folder);

// Seconds that the run had taken at each record, over all processes that worked on it: the clock of each starts at 0.
std::vector<double> elapsed_seconds(const RunMetrics& metrics);

}  // namespace trainer
