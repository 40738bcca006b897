// RUN/metrics.jsonl: one JSON object a step.
#pragma once

#include <filesystem>
#include <fstream>
#include <vector>

#include "metrics/step_record.h"

namespace trainer {

class MetricsFile {
 public:
  // Keeps the records of the first `steps_done` steps that the file has, and drops what an interrupted run wrote after
  // its checkpoint. Throws fsdp::Error when it cannot be written.
  MetricsFile(const std::filesystem::path& path, int64_t steps_done);

  // Written through at once, so that others can follow the run.
  void write(const StepRecord& record);
  // The losses of the run, one a record, kept ones included, and the step of the first.
  const std::vector<double>& losses() const { return losses_; }
  int64_t first_step() const { return first_step_; }

 private:
  void remember(int64_t step, double loss);

  std::filesystem::path path_;
  std::ofstream file_;
  std::vector<double> losses_;
  int64_t first_step_ = 1;
};

}  // namespace trainer
