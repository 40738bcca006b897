#include "metrics/metrics.h"

#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <utility>

#include "metrics/fields.h"

namespace trainer {

using Json = nlohmann::ordered_json;

namespace {

// JSON has no infinity: a run that diverged says null.
double number_or_nan(const Json& json) { return json.is_number() ? json.get<double>() : std::nan(""); }

}  // namespace

MetricsFile::MetricsFile(const std::filesystem::path& path, int64_t steps_done, Tell tell)
    : path_(path), tell_(std::move(tell)) {
  file_.emplace(path, steps_done > 0 ? kept_bytes(steps_done) : 0);
}

// Steps rise from line to line, so what is kept is the file's beginning: cutting it needs no room on the disk, and no
// record is ever without a place. A damaged line in it stays: it is no worse than a hole.
int64_t MetricsFile::kept_bytes(int64_t steps_done) {
  std::ifstream file(path_, std::ios::binary);
  int64_t kept = 0, number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    const bool has_end = !file.eof();
    const std::optional<Json> record = parse_record(line);
    if (!record && !has_end) {
      tell_(fmt::format("'{}', line {}: cut off, as the run was killed while writing it.", path_.string(), number));
      break;
    }
    if (!record) tell_(fmt::format("'{}', line {}: not a record; it is left as it is.", path_.string(), number));
    if (record && record->at("step").get<int64_t>() > steps_done) break;
    if (record && record->contains("loss")) remember(record->at("step"), number_or_nan(record->at("loss")));
    kept += static_cast<int64_t>(line.size()) + (has_end ? 1 : 0);
    if (!has_end) waiting_ = "\n";  // the line is whole but for that
  }
  return kept;
}

void MetricsFile::write(const StepRecord& record) {
  write_line(line_of(to_json(record)));
  remember(record.step, record.loss);
}

void MetricsFile::write(const Event& event) { write_line(line_of(to_json(event))); }

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

void MetricsFile::remember(int64_t step, double loss) {
  if (losses_.empty()) first_step_ = step;
  losses_.push_back(loss);
}

}  // namespace trainer
