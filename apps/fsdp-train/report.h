// What rank 0 tells of a run: on standard output and in the run folder.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "metrics/metrics.h"
#include "metrics/progress.h"
#include "metrics/step_record.h"
#include "options.h"

namespace trainer {

class Report {
 public:
  // Makes the run folder, and writes RUN/config.json, RUN/config.toml and the head of RUN/metrics.jsonl. Throws
  // fsdp::Error when that fails.
  Report(const Options& options, int64_t steps_done);

  // Knows of `record` what the step's computation gives; adds time, speed and memory.
  void step(StepRecord record);
  // The loss curve, and RUN/sample.txt.
  void finish(const std::string& sample);

 private:
  using Clock = std::chrono::steady_clock;
  void add_speed(StepRecord& record);

  Options options_;
  Terminal terminal_;
  MetricsFile metrics_;
  Progress progress_;
  Clock::time_point began_, last_;
  double step_seconds_ = 0;  // a moving average
  std::optional<double> validation_loss_;
};

}  // namespace trainer
