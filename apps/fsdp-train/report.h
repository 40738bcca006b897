// What rank 0 tells of a run: on standard output and in the run folder.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "metrics/metrics.h"
#include "metrics/progress.h"
#include "metrics/step_record.h"
#include "metrics/tensorboard.h"
#include "options.h"

namespace trainer {

class Report {
 public:
  // Makes the run folder, and writes RUN/config.json, the head of RUN/metrics.jsonl and a file in RUN/tensorboard.
  // Throws fsdp::Error when that fails.
  Report(const Options& options, int64_t steps_done);

  // Knows of `record` what the step's computation gives; adds time, speed and memory, and the step's own seconds and
  // the tokens so far where they are 0.
  void step(StepRecord record);
  // What happened after `step` steps, for the record and for who watches: "checkpoint saved".
  void event(int64_t step, const std::string& text);
  // For who watches alone.
  void tell(const std::string& text) { progress_.tell(text); }
  // The loss curve, and RUN/sample.txt.
  void finish(const std::string& sample);

 private:
  using Clock = std::chrono::steady_clock;
  void add_speed(StepRecord& record);
  double seconds_since_beginning() const;

  Options options_;
  Terminal terminal_;
  Progress progress_;
  MetricsFile metrics_;
  TensorBoardFile tensorboard_;
  Clock::time_point began_, last_;
  double step_seconds_ = 0;  // a moving average
  std::optional<double> validation_loss_;
};

}  // namespace trainer
