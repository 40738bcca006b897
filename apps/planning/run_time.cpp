#include "planning/run_time.h"

#include <fmt/format.h>

#include "console/units.h"
#include "options/frozen.h"
#include "planning/plan_text.h"
#include "planning/planned_mesh.h"

namespace trainer {

double flops_of_step(const RunOptions& options) {
  const double of_token = models::flops_per_token(options.model, options.model.context, frozen_parameters(options));
  return of_token * static_cast<double>(options.tokens_per_step());
}

double step_seconds(const RunOptions& options, double peak_flops) {
  return flops_of_step(options) / (kExpectedMfu * peak_flops * static_cast<double>(options.ranks));
}

double step_seconds(const RunOptions& options, const PassTimes& passes) {
  const double micro_batch = passes.rest + static_cast<double>(options.model.layers) * passes.layer;
  const double parameters = static_cast<double>(models::parameter_numel(options.model));
  const double of_rank = parameters / static_cast<double>(options.strategy == "no-shard" ? 1 : options.ranks);
  const auto divided = static_cast<double>(options.ranks_of_replica());
  return static_cast<double>(options.micro_batches) * micro_batch / divided + of_rank * passes.update_of_parameter;
}

double idle_share_of(const RunOptions& options) {
  return options.pipeline_parallel == 1 ? 0 : idle_shares(planned_mesh(options), options).mean;
}

bool knows_steps(const RunPlan& plan) { return plan.windows.has_value() || !plan.options.epochs; }

namespace {

struct StepTime {
  double seconds;
  std::string source;
};

std::optional<StepTime> step_time(const RunPlan& plan) {
  const RunOptions& options = plan.options;
  const char* kNotCounted = "validation, checkpoints and samples are not counted";
  if (plan.host.passes && !options.peak_flops) {
    return StepTime{step_seconds(options, *plan.host.passes),
                    fmt::format("passes of 1 and of 2 layers were measured here; gathers and reductions hide behind "
                                "them, and {}",
                                kNotCounted)};
  }
  const std::optional<double> peak = plan.peak_flops();
  if (!peak) return std::nullopt;
  const std::string source =
      options.peak_flops ? "given" : "measured here in products of matrices by all ranks at once";
  return StepTime{step_seconds(options, *peak),
                  fmt::format("steps reach {:.0f} % of {} per rank, {}; {}", 100 * kExpectedMfu, operation_rate(*peak),
                              source, kNotCounted)};
}

}  // namespace

std::string time_text(const RunPlan& plan) {
  std::optional<StepTime> step = step_time(plan);
  if (!step) return "";
  const RunOptions& options = plan.options;
  step->seconds /= 1 - idle_share_of(options);
  std::string text = "time, about\n" + plan_line("a step", rough_duration(step->seconds));
  if (knows_steps(plan)) {
    text +=
        plan_line("the run", fmt::format("{}, {}", rough_duration(step->seconds * static_cast<double>(options.steps)),
                                         counted(options.steps, "step")));
  }
  return text + plan_line("assumed", step->source);
}

}  // namespace trainer
