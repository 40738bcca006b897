#include "report/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "console/units.h"
#include "report/status.h"
#include "report/text.h"

namespace trainer {

namespace {

constexpr const char* kUnknownCell = "–";

double last_finite(const std::vector<double>& values) {
  const auto found = std::find_if(values.rbegin(), values.rend(), [](double value) { return std::isfinite(value); });
  return found != values.rend() ? *found : std::nan("");
}

double highest(const std::vector<double>& values) {
  double result = std::nan("");
  for (const double value : values) {
    if (std::isfinite(value) && !(value <= result)) result = value;
  }
  return result;
}

template <typename Format>
std::string known(double value, Format format) {
  return std::isfinite(value) ? format(value) : kUnknownCell;
}

std::string best_validation(const RunMetrics& metrics) {
  const std::vector<double> losses = metrics.column("validation_loss");
  size_t best = losses.size();
  for (size_t i = 0; i < losses.size(); ++i) {
    if (std::isfinite(losses[i]) && (best == losses.size() || losses[i] < losses[best])) best = i;
  }
  if (best == losses.size()) return kUnknownCell;
  return fmt::format("{:.4f} <small>best: step {}</small>", losses[best], grouped(metrics.steps[best]));
}

std::string step_time(double seconds) {
  return seconds < 1 ? fmt::format("{:.3g} ms", 1000 * seconds) : fmt::format("{:.3g} s", seconds);
}

std::string bytes(double count) {
  constexpr double kMost = 1e18;  // a file may say anything
  return short_bytes(static_cast<size_t>(std::clamp(count, 0.0, kMost)));
}

struct SummaryCell {
  const char* label;
  std::string value;  // HTML
};

std::string steps_text(const RunFolder& run) {
  const int64_t done = run.metrics.steps.back();
  const int64_t wanted = run.metrics.processes.empty() ? 0 : run.metrics.processes.back().start.steps;
  return wanted > done ? fmt::format("{} <small>of {}</small>", grouped(done), grouped(wanted)) : grouped(done);
}

std::vector<SummaryCell> cells_of(const RunFolder& run) {
  const RunMetrics& metrics = run.metrics;
  const double peak = std::fmax(highest(metrics.column("peak_memory_bytes")), highest(metrics.column("memory_bytes")));
  const auto loss = [](double value) { return fmt::format("{:.4f}", value); };
  const auto percent = [](double share) { return fmt::format("{:.1f} %", 100 * share); };
  return {{"steps", steps_text(run)},
          {"tokens", known(last_finite(metrics.column("tokens")), short_number)},
          {"last loss", known(last_finite(metrics.column("loss")), loss)},
          {"validation loss", best_validation(metrics)},
          {"tokens/s", known(median(metrics.column("tokens_per_second")), short_number)},
          {"step time", known(median(metrics.column("step_seconds")), step_time)},
          {"MFU", known(median(metrics.column("mfu")), percent)},
          {"peak memory", known(peak, bytes)},
          {"time", known(elapsed_seconds(metrics).back(), duration)}};
}

std::string summary_tiles(const RunFolder& run) {
  std::string text;
  for (const SummaryCell& cell : cells_of(run)) {
    if (cell.value != kUnknownCell) text += fmt::format("<div><dt>{}</dt><dd>{}</dd></div>\n", cell.label, cell.value);
  }
  return fmt::format("<dl class=\"tiles\">\n{}</dl>\n", text);
}

std::string summary_table(const std::vector<RunFolder>& runs) {
  std::string rows, heads = "<th>run</th><th></th>";
  for (const SummaryCell& cell : cells_of(runs.front())) heads += fmt::format("<th>{}</th>", cell.label);
  for (size_t i = 0; i < runs.size(); ++i) {
    rows += fmt::format("<tr><th scope=\"row\"><span class=\"swatch run-{}\"></span>{}</th><td class=\"text\">{}</td>",
                        i % 8, html(runs[i].name), status_label(runs[i].status));
    for (const SummaryCell& cell : cells_of(runs[i])) {
      rows += fmt::format("<td data-label=\"{}\"><span>{}</span></td>", cell.label, cell.value);
    }
    rows += "</tr>\n";
  }
  return fmt::format(
      "<div class=\"scroll\"><table class=\"numbers cards\">\n<thead><tr>{}</tr></thead>\n<tbody>{}</tbody></table>"
      "</div>\n",
      heads, rows);
}

}  // namespace

double median(std::vector<double> values) {
  std::erase_if(values, [](double value) { return !std::isfinite(value); });
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::string summary_of(const std::vector<RunFolder>& runs) {
  return runs.size() == 1 ? summary_tiles(runs.front()) : summary_table(runs);
}

}  // namespace trainer
