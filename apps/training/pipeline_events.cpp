#include "training/pipeline_events.h"

#include <fmt/format.h>

#include <algorithm>

#include "console/units.h"

namespace trainer {

namespace {

// The sum of the costs of the stage with the greatest.
double slowest_stage(const fsdp::PipelineReport& report, const std::vector<int>& cuts) {
  double slowest = 0;
  size_t block = 0;
  for (const int blocks : cuts) {
    double cost = 0;
    for (int i = 0; i < blocks && block < report.costs.size(); ++i) cost += report.costs[block++];
    slowest = std::max(slowest, cost);
  }
  return slowest;
}

}  // namespace

std::string idle_text(const fsdp::PipelineReport& report, double of_passes, const std::string& schedule) {
  return fmt::format(
      "a rank of the pipeline is idle for {:.0f} % of a step. The formula of {} for {} and stages that take equally "
      "long gives {:.0f} %, and passes that take as long as these did give {:.0f} %",
      100 * report.idle_share, schedule, counted(report.micro_batches, "micro-batch", "micro-batches"),
      100 * report.idle_share_formula, 100 * of_passes);
}

std::string better_cuts_text(const fsdp::PipelineReport& report) {
  constexpr double kWorthIt = 0.05;
  if (report.costs.empty() || report.measured_cuts == report.cuts) return "";
  const double now = slowest_stage(report, report.cuts), then = slowest_stage(report, report.measured_cuts);
  if (now <= 0 || 1 - then / now < kWorthIt) return "";
  const std::string better = fsdp::pipeline_cuts_text(report.measured_cuts);
  return fmt::format(
      "stages of {} blocks: by the times of the first step the slowest one takes {:.0f} % less time with "
      "--stages {}",
      fsdp::pipeline_cuts_text(report.cuts), 100 * (1 - then / now), better);
}

}  // namespace trainer
