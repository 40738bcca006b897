#include "fsdp-plan/plan_rows.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "console/units.h"
#include "fsdp-plan/plan_page.h"
#include "models/model_config.h"
#include "planning/plan_text.h"

namespace planner {

std::vector<PlanRow> strategy_rows(const PlanArguments& arguments) {
  std::vector<PlanRow> rows;
  for (const char* strategy : trainer::kStrategies) {
    trainer::RunOptions options = arguments.options;
    options.strategy = strategy;
    rows.push_back({strategy, trainer::plan_numbers(arguments.target, options)});
  }
  return rows;
}

std::string rows_text(const PlanArguments& arguments, const std::vector<PlanRow>& rows) {
  std::string text = heading(arguments) + "\n";
  text += fmt::format("{:<21}{:>10}{:>13}{:>13}{:>11}\n", "strategy",
                      arguments.target.listed == nullptr ? "peak" : "state", "within hosts", "across hosts", "a step");
  for (const auto& [name, numbers] : rows) {
    text +=
        fmt::format("{:<21}{:>10}{:>13}{:>13}{:>11}{}\n", name, trainer::plan_bytes(numbers.memory.peak),
                    trainer::plan_bytes(numbers.communication.within_hosts),
                    trainer::plan_bytes(numbers.communication.across_hosts),
                    numbers.time ? seconds_text(numbers.time->step) : "not known", numbers.fits ? "" : "  too large");
  }
  return text;
}

std::string rows_json(const std::vector<PlanRow>& rows) {
  nlohmann::json json;
  for (const auto& [name, numbers] : rows) json[name] = trainer::plan_json(numbers);
  return json.dump(2) + "\n";
}

ModelPlan compared(const PlanArguments& arguments, const std::vector<PlanRow>& rows) {
  const std::string json = rows_json(rows);
  return answered(arguments, arguments.as_json ? json : rows_text(arguments, rows), [&] {
    return plan_page(arguments,
                     {.kind = fmt::format("Strategies for {}", arguments.model),
                      .strategy = fmt::format("{} {}", rows.size(),
                                              rows.size() == trainer::kStrategies.size() ? "strategies" : "settings"),
                      .rows = rows,
                      .json = json});
  });
}

std::string ranks_text(const PlanArguments& arguments) {
  const std::string& machine = arguments.target.hardware.name;
  if (arguments.ranks_to_choose.size() > 1)
    return fmt::format("{} ranks of {}", fmt::join(arguments.ranks_to_choose, " or "), machine);
  return fmt::format("{} on {} of {}", trainer::counted(arguments.options.ranks, "rank"),
                     trainer::counted(arguments.target.hosts, "host"), machine);
}

std::string heading(const PlanArguments& arguments) {
  const trainer::RunOptions& options = arguments.options;
  const trainer::PlanTarget& target = arguments.target;
  if (target.listed != nullptr)
    return fmt::format("{}: {} parameters in {}\n{}, {}\n", arguments.model, trainer::grouped(target.listed->numel),
                       trainer::counted(std::ssize(target.listed->units), "unit"), ranks_text(arguments),
                       options.param_dtype);
  return fmt::format("{}: {} parameters\n{}, {}, {} x {} tokens per rank{}\n", arguments.model,
                     trainer::grouped(models::parameter_numel(options.model)), ranks_text(arguments),
                     options.param_dtype, options.batch, options.model.context,
                     options.micro_batches > 1 ? fmt::format(", {} micro-batches", options.micro_batches) : "");
}

std::string seconds_text(double seconds) {
  if (seconds < 1) return fmt::format("{:.1f} ms", seconds * 1000);
  return seconds < 10 ? fmt::format("{:.2f} s", seconds) : fmt::format("{:.1f} s", seconds);
}

}  // namespace planner
