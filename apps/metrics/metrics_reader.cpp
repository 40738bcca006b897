#include "metrics/metrics_reader.h"

#include <fmt/format.h>
#include <fsdp/error.h>

#include <algorithm>
#include <limits>

#include "metrics/fields.h"
#include "metrics/lines.h"

namespace trainer {

using Json = nlohmann::ordered_json;

namespace {

constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();

class Table {
 public:
  void add(const Json& record) {
    const int64_t step = record["step"];
    if (record.contains("event")) return add_event(step, record);
    leave_out_from(step);
    result_.steps.push_back(step);
    for (const auto& [name, value] : record.items()) {
      if (name == "step") continue;
      if (!value.is_object()) {
        add_number(name, value);
      } else {
        for (const auto& [part, number] : value.items()) add_number(fmt::format("{}.{}", name, part), number);
      }
    }
  }

  void add_problem(const std::string& problem) {
    constexpr size_t kTold = 20;  // of a file that is no such file each line is one
    if (++problems_ <= kTold) result_.problems.push_back(problem);
  }

  RunMetrics finish(const std::filesystem::path& path) {
    for (auto& [name, column] : result_.columns) column.resize(result_.steps.size(), kNothing);
    if (problems_ > result_.problems.size()) {
      result_.problems.push_back(
          fmt::format("'{}': {} more lines like these.", path.string(), problems_ - result_.problems.size()));
    }
    return std::move(result_);
  }

 private:
  void add_event(int64_t step, const Json& record) {
    const Json& text = record["event"];
    if (text == kRunStart) return result_.processes.push_back({.start = start_from(record), .end = std::nullopt});
    if (text == kRunEnd) return add_end(end_from(record));
    if (text == kCheckpointEvent) return result_.checkpoints.push_back(checkpoint_from(record));
    if (text == kDataEvent) return static_cast<void>(result_.data = data_from(record));
    const auto seconds = record.find("seconds");
    const bool has_seconds = seconds != record.end() && seconds->is_number();
    result_.events.push_back({.step = step,
                              .text = text.is_string() ? text.get<std::string>() : line_of(text),
                              .seconds = has_seconds ? seconds->get<double>() : 0.0});
  }

  void add_end(const ProcessEnd& end) {
    if (!result_.processes.empty()) result_.processes.back().end = end;
  }

  void leave_out_from(int64_t step) {
    const auto first = std::lower_bound(result_.steps.begin(), result_.steps.end(), step);
    if (first == result_.steps.end()) return;
    result_.steps.erase(first, result_.steps.end());
    for (auto& [name, column] : result_.columns) column.resize(std::min(column.size(), result_.steps.size()));
    while (!result_.events.empty() && result_.events.back().step >= step) result_.events.pop_back();
    std::erase_if(result_.checkpoints, [&](const CheckpointRecord& saved) { return saved.step >= step; });
  }

  void add_number(const std::string& name, const Json& value) {
    if (!value.is_number() && !value.is_boolean() && !value.is_null()) return;
    constexpr size_t kMostColumns = 1000;  // each takes one number per step
    if (result_.columns.size() >= kMostColumns && !result_.columns.contains(name)) {
      return add_problem(
          fmt::format("'{}' is one more field than the {} that are shown; it is left out.", name, kMostColumns));
    }
    std::vector<double>& column = result_.columns[name];
    column.resize(result_.steps.size() - 1, kNothing);
    column.push_back(value.is_boolean() ? (value.get<bool>() ? 1.0 : 0.0)
                                        : (value.is_number() ? value.get<double>() : kNothing));
  }

  RunMetrics result_;
  size_t problems_ = 0;
};

LineReader lines_of(const std::filesystem::path& path) try {
  return LineReader(path);
} catch (const fsdp::Error& error) {
  throw fsdp::Error(fmt::format("{} Name the folder of a run of fsdp-train.", error.what()));
}

}  // namespace

std::vector<double> RunMetrics::column(const std::string& name) const {
  const auto found = columns.find(name);
  return found != columns.end() ? found->second : std::vector<double>(steps.size(), kNothing);
}

RunMetrics read_metrics(const std::filesystem::path& path) {
  LineReader lines = lines_of(path);
  Table table;
  while (lines.next()) {
    if (lines.text().empty() && !lines.is_too_long()) continue;
    if (const std::optional<Json> record = parse_record(lines.text())) {
      table.add(*record);
    } else {
      table.add_problem(fmt::format(
          "'{}', line {}: {}; it is left out.", path.string(), lines.number(),
          lines.is_too_long() ? fmt::format("longer than {} bytes", kLongestLine) : "not a JSON object with a step"));
    }
  }
  RunMetrics metrics = table.finish(path);
  if (!metrics.steps.empty()) return metrics;
  throw fsdp::Error(fmt::format("'{}' has no record of a step in its {} lines{}{}", path.string(), lines.number(),
                                metrics.problems.empty() ? "." : ": ",
                                metrics.problems.empty() ? "" : metrics.problems.front()));
}

}  // namespace trainer
