// Rank 0's report of a run: on standard output and in the run folder.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "metrics/metrics.h"
#include "metrics/progress.h"
#include "metrics/step_record.h"
#include "metrics/tensorboard.h"
#include "options/options.h"
#include "run/run_lock.h"
#include "tokenizers/tokenizer.h"
#include "training/folder_repair.h"
#include "training/loss_trend.h"
#include "training/measured_peak.h"
#include "training/step_times.h"

namespace trainer {

class Report {
 public:
  // Makes the run folder, and writes RUN/config.json, RUN/config.toml, the tokenizer if there is one, the head of
  // RUN/metrics.jsonl and a file in RUN/tensorboard. Throws fsdp::Error when that fails.
  // `peak`, which each step is a share of, `lock`, on the run folder, and the tokenizer live as long as the report.
  Report(const RunOptions& options, const tokenizers::Tokenizer* tokenizer, const ProcessStart& start,
         const MeasuredPeak& peak, RunLock& lock);

  // Before the first step.
  void begin(int64_t steps_done) { progress_.begin(steps_done); }
  // Makes removed or moved files of the run folder again (folder_repair.h), as each record does. Failures are printed,
  // and it tries again from time to time. Throws FolderTaken.
  void repair_folder_if_lost();
  // True if the run folder was lost since the last call, with the checkpoints in it.
  bool folder_was_lost() { return std::exchange(folder_was_lost_, false); }

  // Knows of `record` what the step's computation gives, its seconds among it; adds the time of the run, speed, memory,
  // and the tokens so far where they are 0.
  void step(StepRecord record);
  // An event after `step` steps, for the record and for who watches: "checkpoint saved".
  void event(int64_t step, const std::string& text);
  // For the record alone.
  void data(const DataRecord& record) { write(record); }
  // A checkpoint that was saved, with all but its time; and a line for who watches, where there is a text.
  void checkpoint(CheckpointRecord record, const std::string& text);
  // For who watches alone.
  void tell(const std::string& text) { progress_.tell(text); }
  // Text that the model wrote after `step` steps: RUN/sample-N.txt.
  void sample(int64_t step, const std::string& text);
  // The loss curve after `steps_done` steps, where the time went, RUN/sample.txt, and how to go on if the validation
  // loss still falls. `best`: the best checkpoint, for people; empty: there is none. A failed write is printed, if
  // possible.
  void finish(int64_t steps_done, const std::string& sample, const std::string& best);
  // In place of `finish`, after a signal: where the checkpoint is, and how to go on from it.
  void stopped(int64_t steps_done);

  // The last record: how the process ended after `steps_done` steps, and why, if it did not finish.
  void end(int64_t steps_done, EndStatus status, const std::string& reason = "");

 private:
  using Clock = std::chrono::steady_clock;
  // A line of the record.
  template <typename Record>
  void write(const Record& record) {
    repair_folder_if_lost();
    last_step_ = std::max(last_step_, record.step);
    metrics_.write(record);
  }
  void add_speed(StepRecord& record);
  void keep_sample(const std::string& sample);
  void tell_fall(int64_t steps_done) const;
  double seconds_since_beginning() const;

  RunOptions options_;
  const tokenizers::Tokenizer* tokenizer_;
  RunLock& lock_;
  const MeasuredPeak& peak_;
  double flops_per_token_;
  Terminal terminal_;
  Progress progress_;
  MetricsFile metrics_;
  TensorBoardFile tensorboard_;
  Clock::time_point began_, last_;
  // Moving averages: between the ends of two steps, with all that comes between them; and of the steps alone.
  double seconds_a_step_ = 0, training_seconds_ = 0;
  StepTimes step_times_;
  std::vector<Validation> validations_;  // of this process
  int64_t activation_bytes_ = 0;         // the most of a step
  int64_t stored_bytes_ = 0;             // of activations, in files
  int64_t last_step_ = 0;                // of the record
  bool is_folder_lost_ = false;          // now, or in part
  bool folder_was_lost_ = false;
  Clock::time_point next_repair_;
};

}  // namespace trainer
