#include "report/curves.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/decimate.h"
#include "report/details.h"
#include "report/part_colours.h"
#include "report/text.h"

namespace trainer {

namespace {

constexpr size_t kMostGroups = 1000, kFewestGroups = 120, kGroupsOfAll = 6000;

template <typename Values, typename Print>
std::string array(const Values& values, Print print) {
  std::string text = "[";
  for (const auto& value : values) {
    if (text.size() > 1) text += ',';
    text += print(value);
  }
  return text + "]";
}

std::string numbers(const std::vector<double>& values) { return array(values, json_number); }

// Joined by commas: the members of an object, or its elements.
class List {
 public:
  void add(const std::string& item) {
    if (!text_.empty()) text_ += ',';
    text_ += item;
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

std::vector<double> in_the_middle(const std::vector<double>& values, const Grid& grid) {
  std::vector<double> result;
  for (size_t group = 0; group < grid.groups(); ++group) result.push_back(values[grid.middle(group)]);
  return result;
}

std::string steps_json(const std::vector<int64_t>& steps, const Grid& grid) {
  std::vector<int64_t> result;
  for (size_t group = 0; group < grid.groups(); ++group) result.push_back(steps[grid.middle(group)]);
  return array(result, [](int64_t step) { return fmt::format("{}", step); });
}

std::string band_json(const std::vector<double>& values, const Grid& grid) {
  const Band band = band_of(values, grid);
  if (grid.together == 1) return fmt::format("\"mean\":{}", numbers(band.mean));
  return fmt::format("\"mean\":{},\"low\":{},\"high\":{}", numbers(band.mean), numbers(band.low), numbers(band.high));
}

bool is_sparse(const std::vector<double>& values) {
  const auto known = std::count_if(values.begin(), values.end(), [](double value) { return !std::isnan(value); });
  return static_cast<size_t>(known) * 2 < values.size();
}

// A value that few records have, as a validation loss, has points of its own.
std::string sparse_json(const RunMetrics& metrics, const std::vector<double>& values, size_t most) {
  std::vector<int64_t> steps;
  std::vector<double> known;
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isnan(values[i])) continue;
    steps.push_back(metrics.steps[i]);
    known.push_back(values[i]);
  }
  const Grid grid = grid_of(steps.size(), most);
  return fmt::format("\"step\":{},{}", steps_json(steps, grid), band_json(known, grid));
}

constexpr const char* kOutside = "outside_seconds";
constexpr const char* kShown[] = {"loss",         "validation_loss", "grad_norm",    "lr",  "tokens_per_second",
                                  "step_seconds", kOutside,          "wait_seconds", "mfu", "loss_scale"};

// A field of the records, or what follows from them: the time outside forward, backward and optimizer. Records that
// know of data alone count all of it as data.
std::vector<double> column_of(const RunMetrics& metrics, const std::string& name) {
  if (name != kOutside) return metrics.column(name);
  std::vector<double> seconds = metrics.column("data_seconds");
  const std::vector<double> other = metrics.column("other_seconds");
  for (size_t i = 0; i < seconds.size(); ++i) seconds[i] += std::isnan(other[i]) ? 0.0 : other[i];
  return seconds;
}

std::string series_json(const RunMetrics& metrics, const Grid& grid, size_t most) {
  List series;
  for (const char* name : kShown) {
    const std::vector<double> values = column_of(metrics, name);
    if (std::none_of(values.begin(), values.end(), [](double value) { return std::isfinite(value); })) continue;
    series.add(fmt::format("\"{}\":{{{}}}", name,
                           is_sparse(values) ? sparse_json(metrics, values, most) : band_json(values, grid)));
  }
  return series.text();
}

constexpr std::string_view kPart = "memory.";

// Parts of other names follow.
std::vector<std::string> memory_parts(const RunMetrics& metrics) {
  std::vector<std::string> parts;
  const auto add = [&](const std::string& part) {
    const bool is_new = std::find(parts.begin(), parts.end(), part) == parts.end();
    if (is_new && metrics.columns.contains(std::string(kPart) + part)) parts.push_back(part);
  };
  for (const char* part : kMemoryParts) add(part);
  for (const auto& [name, values] : metrics.columns) {
    if (name.starts_with(kPart)) add(name.substr(kPart.size()));
  }
  return parts;
}

std::string memory_json(const RunMetrics& metrics, const Grid& grid) {
  List parts;
  const auto add = [&](const std::string& name, const std::vector<double>& values) {
    parts.add(fmt::format("{{\"name\":{},\"colour\":{},\"bytes\":{}}}", json_string(name), part_colour(name),
                          numbers(band_of(values, grid).high)));
  };
  for (const std::string& part : memory_parts(metrics)) add(part, metrics.column(std::string(kPart) + part));
  if (metrics.columns.contains("memory_bytes")) add("resident", metrics.column("memory_bytes"));
  return parts.text();
}

std::string events_json(const RunMetrics& metrics) {
  List events;
  for (const Event& event : shown_events(metrics)) {
    events.add(fmt::format("{{\"step\":{},\"text\":{}}}", event.step, json_string(event.text)));
  }
  return events.text();
}

std::string run_json(const RunFolder& run, size_t most) {
  const RunMetrics& metrics = run.metrics;
  const Grid grid = grid_of(metrics.steps.size(), most);
  return fmt::format(
      "{{\"name\":{},\"step\":{},\"tokens\":{},\"seconds\":{},\"series\":{{{}}},\"memory\":[{}],\"events\":[{}]}}",
      json_string(run.name), steps_json(metrics.steps, grid), numbers(in_the_middle(metrics.column("tokens"), grid)),
      numbers(in_the_middle(elapsed_seconds(metrics), grid)), series_json(metrics, grid, most),
      memory_json(metrics, grid), events_json(metrics));
}

}  // namespace

std::string curves_json(const std::vector<RunFolder>& runs) {
  const size_t most = std::clamp(kGroupsOfAll / std::max<size_t>(runs.size(), 1), kFewestGroups, kMostGroups);
  List all;
  for (const RunFolder& run : runs) all.add(run_json(run, most));
  return fmt::format("{{\"runs\":[{}]}}", all.text());
}

}  // namespace trainer
