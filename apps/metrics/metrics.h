// RUN/metrics.jsonl: one JSON object per step or event, the one source of what a run was like.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "metrics/checkpoint_record.h"
#include "metrics/data_record.h"
#include "metrics/output_file.h"
#include "metrics/process_record.h"
#include "metrics/step_record.h"

namespace trainer {

class LineReader;

// One thread at a time.
class MetricsFile {
 public:
  // Prints a sentence for the run's followers.
  using Tell = std::function<void(const std::string&)>;

  // Keeps what the file has of the first `steps_done` steps, to the byte, and cuts off what an interrupted run wrote
  // after its checkpoint; where that is half a line, it tells. A file that this run cannot go on with, as `steps_done`
  // is 0 or its steps do not rise, gets another name that ends with ".before-1", and it tells which. Throws fsdp::Error
  // when the file cannot be read or written, and for a symbolic link.
  MetricsFile(const std::filesystem::path& path, int64_t steps_done, Tell tell);

  // Written through at once, so that others can follow the run. A disk that is full stops no training: the lines wait
  // in memory until there is room, and it tells once.
  void write(const StepRecord& record);
  void write(const Event& event);
  void write(const ProcessStart& start);
  void write(const ProcessEnd& end);
  void write(const DataRecord& data);
  void write(const CheckpointRecord& checkpoint);

  // If the file is removed or moved: as OutputFile's.
  bool is_in_place() const { return file_->is_in_place(); }
  bool is_replaced() const { return file_->is_replaced(); }
  void restore() { file_->restore(); }
  // The file that is there instead gets another name, and it tells which; then `restore`.
  void restore_beside();

  // The losses of the run, one per record, kept ones included, and the step of the first.
  const std::vector<double>& losses() const { return losses_; }
  int64_t first_step() const { return first_step_; }

 private:
  int64_t kept_bytes(int64_t steps_done);
  int64_t kept_of_record(int64_t steps_done);
  int64_t begin_anew(const std::string& why);
  void tell_damaged(const LineReader& line);
  void write_line(const std::string& line);
  void remember(int64_t step, double loss);

  std::filesystem::path path_;
  Tell tell_;
  std::vector<double> losses_;
  int64_t first_step_ = 1;
  int damaged_ = 0;      // lines
  std::string waiting_;  // for room on the disk
  bool is_full_ = false;
  std::optional<OutputFile> file_;
};

}  // namespace trainer
