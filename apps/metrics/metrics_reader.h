// Reads RUN/metrics.jsonl back, one column per field.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "metrics/checkpoint_record.h"
#include "metrics/data_record.h"
#include "metrics/process_record.h"
#include "metrics/step_record.h"

namespace trainer {

struct RunProcess {
  ProcessStart start;
  std::optional<ProcessEnd> end;  // none: it still trains, or was killed
};

struct RunMetrics {
  std::vector<int64_t> steps;  // rising; at least one
  // One number per step, NaN where the record has none. Every field that holds numbers is one, known to this program or
  // not; those of an object are "memory.parameters", and yes is 1.
  std::map<std::string, std::vector<double>> columns;
  std::vector<Event> events;
  std::vector<CheckpointRecord> checkpoints;  // all that were saved, in their order
  std::optional<DataRecord> data;             // of the last process that told
  std::vector<RunProcess> processes;  // in their order; none in a record that was made before there were such records
  std::vector<std::string> problems;  // what had to be left out, a sentence each with file and line

  // The column, or one of NaN where no record has that field.
  std::vector<double> column(const std::string& name) const;
};

// Damaged lines are left out and told in `problems`. A step that comes again, as a run goes on that was cut off, takes
// the place of what was there from that step on. Throws fsdp::Error for a file that cannot be read or has no step.
RunMetrics read_metrics(const std::filesystem::path& path);

}  // namespace trainer
