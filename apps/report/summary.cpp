#include "report/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "console/units.h"
#include "report/text.h"

namespace trainer {

namespace {

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
  return std::isfinite(value) ? format(value) : "–";
}

std::string best_validation(const RunMetrics& metrics) {
  const std::vector<double> losses = metrics.column("validation_loss");
  size_t best = losses.size();
  for (size_t i = 0; i < losses.size(); ++i) {
    if (std::isfinite(losses[i]) && (best == losses.size() || losses[i] < losses[best])) best = i;
  }
  if (best == losses.size()) return "–";
  return fmt::format("{:.4f} <small>at step {}</small>", losses[best], grouped(metrics.steps[best]));
}

std::string step_time(double seconds) {
  return seconds < 1 ? fmt::format("{:.3g} ms", 1000 * seconds) : fmt::format("{:.3g} s", seconds);
}

std::string bytes(double count) {
  constexpr double kMost = 1e18;  // a file may say anything
  return short_bytes(static_cast<size_t>(std::clamp(count, 0.0, kMost)));
}

std::string row(const RunFolder& run, size_t index) {
  const RunMetrics& metrics = run.metrics;
  const double peak = std::fmax(highest(metrics.column("peak_memory_bytes")), highest(metrics.column("memory_bytes")));
  std::string cells;
  const auto add = [&](const std::string& cell) { cells += fmt::format("<td>{}</td>", cell); };
  add(grouped(metrics.steps.back()));
  add(known(last_finite(metrics.column("tokens")), short_number));
  add(known(last_finite(metrics.column("loss")), [](double loss) { return fmt::format("{:.4f}", loss); }));
  add(best_validation(metrics));
  add(known(median(metrics.column("tokens_per_second")), short_number));
  add(known(median(metrics.column("step_seconds")), step_time));
  add(known(median(metrics.column("mfu")), [](double mfu) { return fmt::format("{:.1f} %", 100 * mfu); }));
  add(known(peak, bytes));
  add(known(elapsed_seconds(metrics).back(), duration));
  return fmt::format("<tr><th scope=\"row\"><span class=\"swatch run-{}\"></span>{}</th>{}</tr>\n", index % 8,
                     html(run.name), cells);
}

}  // namespace

double median(std::vector<double> values) {
  std::erase_if(values, [](double value) { return !std::isfinite(value); });
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::string summary_table(const std::vector<RunFolder>& runs) {
  std::string rows;
  for (size_t i = 0; i < runs.size(); ++i) rows += row(runs[i], i);
  return fmt::format(
      "<div class=\"scroll\"><table class=\"numbers\">\n<thead><tr><th>run</th><th>steps</th><th>tokens</th>"
      "<th>last loss</th><th>best held-back loss</th><th>tokens/s</th><th>a step</th><th>MFU</th>"
      "<th>peak memory</th><th>time</th></tr></thead>\n<tbody>{}</tbody></table></div>\n",
      rows);
}

}  // namespace trainer
