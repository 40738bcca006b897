#include "metrics/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "metrics/fields.h"
#include "metrics/lines.h"
#include "metrics/set_aside.h"

namespace trainer {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

namespace {

// JSON has no infinity: a run that diverged says null.
double number_or_nan(const Json& json) { return json.is_number() ? json.get<double>() : std::nan(""); }

bool is_of_checkpoint(const Json& record) {
  const auto event = record.find("event");
  return event != record.end() && *event == kCheckpointEvent;
}

// Records of steps rise, and an event comes after its step. A checkpoint is recorded when it is committed, and others
// of later steps may be there by then.
bool comes_after(const Json& record, int64_t step, int64_t last) {
  return record.contains("event") ? step >= last || is_of_checkpoint(record) : step > last;
}

}  // namespace

MetricsFile::MetricsFile(const fs::path& path, int64_t steps_done, Tell tell) : path_(path), tell_(std::move(tell)) {
  file_.emplace(path, kept_bytes(steps_done));
}

int64_t MetricsFile::kept_bytes(int64_t steps_done) {
  std::error_code error;
  // A device has no records; a link or a pipe cannot be opened for writing (OutputFile).
  if (fs::symlink_status(path_, error).type() != fs::file_type::regular) return 0;
  if (steps_done > 0) return kept_of_record(steps_done);
  if (fs::file_size(path_, error) == 0) return 0;
  return begin_anew("this run begins anew");
}

int64_t MetricsFile::begin_anew(const std::string& why) {
  const fs::path aside = set_aside(path_, ".before-");
  tell_(fmt::format("{}: the record that was in '{}' is now '{}'.", why, path_.string(), aside.string()));
  losses_.clear();
  waiting_.clear();
  return 0;
}

// Steps rise from line to line, but for the checkpoints', so what is kept is the file's beginning: cutting it needs no
// room on the disk, and no record is ever without a place. A damaged line in it stays: it is no worse than a hole.
// Checkpoints of kept steps that were recorded later are written again.
int64_t MetricsFile::kept_of_record(int64_t steps_done) {
  LineReader lines(path_);
  int64_t kept = 0, last = -1;
  bool is_kept = true;
  while (lines.next()) {
    const std::optional<Json> record = parse_record(lines.text());
    const int64_t step = record ? record->at("step").get<int64_t>() : last;
    if (record && !comes_after(*record, step, last)) {
      return begin_anew(
          fmt::format("line {} has step {} after step {}, so it is not of one run", lines.number(), step, last));
    }
    last = std::max(last, step);
    if (!record && is_kept) tell_damaged(lines);
    is_kept = is_kept && step <= steps_done && (record || lines.has_end());
    if (!is_kept) {
      if (record && step <= steps_done && is_of_checkpoint(*record)) waiting_ += lines.text() + "\n";
      continue;
    }
    if (record && record->contains("loss")) remember(step, number_or_nan(record->at("loss")));
    kept = lines.end();
    if (!lines.has_end()) waiting_ = "\n";  // the line is whole but for that
  }
  return kept;
}

void MetricsFile::tell_damaged(const LineReader& line) {
  constexpr int kTold = 20;  // of a file that is no such file each line is one
  if (++damaged_ > kTold) return;
  tell_(fmt::format(
      "'{}', line {}: {}", path_.string(), line.number(),
      line.has_end() ? "not a record; it is left as it is." : "cut off, as the run was killed while writing it."));
}

void MetricsFile::write(const StepRecord& record) {
  write_line(line_of(to_json(record)));
  remember(record.step, record.loss);
}

void MetricsFile::write(const Event& event) { write_line(line_of(to_json(event))); }

void MetricsFile::write(const ProcessStart& start) { write_line(line_of(to_json(start))); }

void MetricsFile::write(const ProcessEnd& end) { write_line(line_of(to_json(end))); }

void MetricsFile::write(const DataRecord& data) { write_line(line_of(to_json(data))); }

void MetricsFile::write(const CheckpointRecord& checkpoint) { write_line(line_of(to_json(checkpoint))); }

void MetricsFile::write_line(const std::string& line) {
  waiting_ += line;
  waiting_ += '\n';
  const std::string reason = file_->append(waiting_);
  if (reason.empty()) {
    if (is_full_) tell_(fmt::format("'{}' is complete again.", path_.string()));
    waiting_.clear();
  } else if (!is_full_) {
    tell_(fmt::format("'{}' cannot be written: {}. Training goes on, and what is to be written waits for room.",
                      path_.string(), reason));
  }
  is_full_ = !reason.empty();
}

void MetricsFile::restore_beside() {
  const fs::path aside = set_aside(path_, ".changed-");
  tell_(fmt::format("'{}' was changed: what was there is now '{}'.", path_.string(), aside.string()));
  restore();
}

void MetricsFile::remember(int64_t step, double loss) {
  if (losses_.empty()) first_step_ = step;
  losses_.push_back(loss);
}

}  // namespace trainer
