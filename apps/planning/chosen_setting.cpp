#include "planning/chosen_setting.h"

#include <fmt/format.h>
#include <fsdp/error.h>

#include <limits>
#include <memory>
#include <optional>

#include "console/units.h"
#include "options/plan_choice.h"
#include "planning/fit.h"
#include "planning/hardware_file.h"
#include "planning/plan_search.h"
#include "planning/plan_text.h"
#include "run/collect_problems.h"

namespace trainer {

namespace {

std::string machine_of_gpu(const std::string& gpu) {
  if (gpu.find("H200") != std::string::npos) return "h200";
  if (gpu.find("A100") == std::string::npos) return "h100";
  return gpu.find("40GB") == std::string::npos ? "a100-80" : "a100-40";
}

// The ranks of a host are alike. GPUs have equal shares of their memory.
PlanTarget target_of(const fsdp::plan::Hardware& machine, const RunPlan& here) {
  PlanTarget target{.hardware = machine, .hosts = here.hosts};
  const double all = here.memory().value_or(std::numeric_limits<double>::infinity());
  target.memory = here.host.on_gpus ? all / static_cast<double>(here.ranks_of_host()) : all;
  target.here = std::make_shared<const RunPlan>(here);
  return target;
}

SearchResult searched(const PlanTarget& target, const RunOptions& options) try {
  return search(target, options, {.kept = 1, .kept_too_large = 1, .keeps_batches = true});
} catch (const fsdp::Error& error) {
  const std::string problem = error.what(), mark = "search: ";
  throw fsdp::Error("--plan: " + (problem.starts_with(mark) ? problem.substr(mark.size()) : problem));
}

std::string refusal(const SearchResult& result, const RunPlan& here) {
  const TriedSetting& smallest = result.too_large.front();
  RunPlan plan = here;
  plan.options = smallest.setting.applied_to(here.options);
  return fmt::format(
      "--plan: none of {} fits. The smallest is {}. Make one of the changes below, if need be without --plan and with "
      "these options, or end other programs.\n{}",
      counted(static_cast<int64_t>(result.settings), "setting"), smallest.options, fit_text(plan));
}

std::string figures_of(const PlanNumbers& numbers, const std::string& machine, size_t settings) {
  return fmt::format(
      "a step of {}, at most {} of tensors per rank; the fastest of {}, simulated with the rates of '{}'",
      rough_duration(numbers.time.value().step), plan_bytes(numbers.memory.peak),
      counted(static_cast<int64_t>(settings), "setting"), machine);
}

}  // namespace

fsdp::plan::Hardware machine_for_plan(const std::string& plan, const std::string& gpu) {
  const std::string name = plan != "auto" ? plan : gpu.empty() ? "cpu" : machine_of_gpu(gpu);
  const fsdp::plan::Hardware machine = hardware_of(name);
  if (machine.has_cpus() == gpu.empty()) return machine;
  throw fsdp::Error(fmt::format("--plan: hardware '{}' has {}, and the ranks compute on {}. Use --plan auto.", name,
                                machine.has_cpus() ? "CPUs" : "GPUs", gpu.empty() ? "CPUs" : "GPUs"));
}

std::vector<std::string> plan_problems(const RunOptions& options) {
  if (options.plan.empty() || options.plan == "auto") return {};
  std::vector<std::string> problems;
  collect_problems_of("--plan", problems, [&] { hardware_of(options.plan); });
  return problems;
}

PlannedOptions chosen_setting(const fsdp::plan::Hardware& machine, const RunPlan& here) {
  RunPlan plan = here;
  if (plan.options.ignore_memory) plan.options.memory = plan.host.memory = std::nullopt;
  plan.options.hosts = plan.hosts;
  const SearchResult result = searched(target_of(machine, plan), plan.options);
  if (result.fitting.empty()) throw fsdp::Error(refusal(result, plan));
  const TriedSetting& best = result.fitting.front();
  return {.flags = free_flags(best.options, here.options),
          .figures = figures_of(best.numbers, machine.name, result.settings)};
}

}  // namespace trainer
