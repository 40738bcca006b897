#include "planning/run_time.h"

#include <fmt/format.h>

#include "console/units.h"
#include "options/frozen.h"
#include "planning/plan_text.h"

namespace trainer {

double flops_of_step(const Options& options) {
  const double of_token = models::flops_per_token(options.model, options.model.context, frozen_parameters(options));
  return of_token * static_cast<double>(options.tokens_per_step());
}

double step_seconds(const Options& options, double peak_flops) {
  return flops_of_step(options) / (kExpectedMfu * peak_flops * static_cast<double>(options.ranks));
}

bool knows_steps(const RunPlan& plan) { return plan.windows.has_value() || !plan.options.epochs; }

std::string time_text(const RunPlan& plan) {
  const std::optional<double> peak = plan.peak_flops();
  if (!peak) return "";
  const Options& options = plan.options;
  const double step = step_seconds(options, *peak);
  std::string text = "time, about\n" + plan_line("a step", rough_duration(step));
  if (knows_steps(plan)) {
    text += plan_line("the run", fmt::format("{}, {}", rough_duration(step * static_cast<double>(options.steps)),
                                             counted(options.steps, "step")));
  }
  const std::string source =
      options.peak_flops ? "given" : "measured here in products of matrices by all ranks at once";
  return text + plan_line("assumed", fmt::format("steps reach {:.0f} % of {} per rank, {}; validation, checkpoints and "
                                                 "samples are not counted",
                                                 100 * kExpectedMfu, operation_rate(*peak), source));
}

}  // namespace trainer
