#include "fsdp-plan/model_plan.h"

#include <fmt/format.h>

#include "console/units.h"
#include "fsdp-plan/plan_arguments.h"
#include "fsdp-plan/plan_page.h"
#include "fsdp-plan/plan_rows.h"
#include "planning/plan_limits.h"
#include "planning/plan_numbers.h"
#include "planning/plan_text.h"

namespace planner {

namespace {

using trainer::PlanNumbers;

std::string line(const char* name, const std::string& value, const std::string& remark = "") {
  return fmt::format("  {:<24}{:>12}{}{}\n", name, value, remark.empty() ? "" : "  ", remark);
}

// The peak, or the state where activations are not known.
std::string sum_text(const PlanArguments& arguments, const PlanNumbers& numbers) {
  const double bytes = numbers.memory.peak, device = arguments.target.memory;
  if (numbers.host_bytes)
    return line("peak", trainer::plan_bytes(bytes)) +
           line("all ranks of a host", trainer::plan_bytes(*numbers.host_bytes),
                fmt::format("{} into {}", numbers.fits ? "fits" : "does not fit", trainer::plan_bytes(device)));
  if (numbers.memory.has_activations || !numbers.fits)
    return line(numbers.memory.has_activations ? "peak" : "state and buffers", trainer::plan_bytes(bytes),
                fmt::format("{} into {}", numbers.fits ? "fits" : "does not fit", trainer::plan_bytes(device)));
  return line("state and buffers", trainer::plan_bytes(bytes),
              fmt::format("leaves {} of {}", trainer::plan_bytes(device - bytes), trainer::plan_bytes(device)));
}

std::string memory_text(const PlanArguments& arguments, const PlanNumbers& numbers) {
  const trainer::PlannedMemory& memory = numbers.memory;
  std::string text = "memory of the rank that holds most\n";
  std::vector<std::pair<const char*, double>> parts = {{"parameters", memory.parameters},
                                                       {"gradients", memory.gradients},
                                                       {"optimizer", memory.optimizer},
                                                       {"full parameters", memory.full_parameters},
                                                       {"full gradients", memory.full_gradients}};
  if (memory.has_activations) {
    parts.emplace_back("activations", memory.activations);
    parts.emplace_back("other tensors, about", memory.others);
  }
  for (const auto& [name, bytes] : parts) text += line(name, trainer::plan_bytes(bytes));
  return text + sum_text(arguments, numbers) +
         line("per parameter", fmt::format("{:.2f} B", numbers.bytes_per_parameter()));
}

std::string limits_text(const trainer::PlanLimits& limits) {
  const auto count = [](const std::optional<int64_t>& number) { return number ? trainer::grouped(*number) : "none"; };
  std::string text = "limits\n" + line("largest batch", count(limits.largest_batch), "sequences") +
                     line("longest sequence", count(limits.longest_sequence), "tokens");
  return text +
         (limits.cheapest ? trainer::plan_line("fewest ranks", limits.cheapest->text()) : line("fewest ranks", "none"));
}

std::string communication_text(const PlanNumbers& numbers) {
  return "received in a step\n" + line("within hosts", trainer::plan_bytes(numbers.communication.within_hosts)) +
         line("across hosts", trainer::plan_bytes(numbers.communication.across_hosts));
}

std::string time_text(const PlanArguments& arguments, const PlanNumbers& numbers) {
  if (arguments.target.listed != nullptr)
    return "Activations and time are not known: MODEL lists parameters, not how they are used.\n";
  if (!numbers.time)
    return fmt::format("time of a step\n{}",
                       trainer::plan_line("not known", fmt::format("there is no schedule of {} for "
                                                                   "such a run",
                                                                   arguments.target.engine)));
  const trainer::PlannedTime& time = *numbers.time;
  return fmt::format("time of a step of {}, simulated\n", arguments.target.engine) +
         line("step", seconds_text(time.step)) + line("computation", seconds_text(time.compute)) +
         line("exposed communication", seconds_text(time.exposed_communication)) +
         line("idle", seconds_text(time.idle));
}

std::string plan_text(const PlanArguments& arguments, const PlanNumbers& numbers,
                      const std::optional<trainer::PlanLimits>& limits) {
  return fmt::format("{}\n{}\n{}\n{}{}", heading(arguments), memory_text(arguments, numbers),
                     communication_text(numbers), time_text(arguments, numbers),
                     limits ? "\n" + limits_text(*limits) : "");
}

std::string strategy_text(const trainer::RunOptions& options) {
  const int64_t group = options.shard_group_size;
  return group > 0 ? fmt::format("{} over {}", options.strategy, group) : options.strategy;
}

}  // namespace

const std::vector<PlanOption>& plan_options() {
  static const std::vector<PlanOption> all = {
      {"--hardware", "MACHINE",
       "Machine of the ranks: h100, h200, a100-80, a100-40, cpu, or a file of such numbers, as calibrate writes.",
       true},
      {"--engine", "ENGINE", "Engine whose time is simulated: libfsdp, fsdp1, fsdp2, ddp, yafsdp or megatron."},
      {"--memory", "BYTES",
       "Memory of a rank's device, such as 40GB, or of a host of CPUs. By default that of the machine."},
      {"--loss-dtype", "DTYPE", "Dtype of the loss in engines of others: fp32, as most programs have it, or same."},
      {"--sequence", "TOKENS", "Length of a sequence; stands for --context."},
      {"--html", "FILE", "Writes the plan to a page with charts, too. It is one file that needs nothing else.", true}};
  return all;
}

ModelPlan plan_model(const std::vector<std::string>& words, size_t) {
  const PlanArguments arguments = read_plan(words);
  if (!arguments.problems.empty()) return {.text = "", .problems = arguments.problems};
  if (arguments.all_strategies) return compared(arguments, strategy_rows(arguments));
  const PlanNumbers numbers = trainer::plan_numbers(arguments.target, arguments.options);
  const std::optional<trainer::PlanLimits> limits = trainer::plan_limits(arguments.target, arguments.options);
  nlohmann::json all = trainer::plan_json(numbers);
  all["limits"] = limits ? trainer::limits_json(*limits) : nullptr;
  const std::string json = all.dump(2) + "\n";
  return answered(arguments, arguments.as_json ? json : plan_text(arguments, numbers, limits), [&] {
    const std::string strategy = strategy_text(arguments.options);
    return plan_page(arguments, {.kind = fmt::format("Plan of {}", arguments.model),
                                 .strategy = strategy,
                                 .rows = {{strategy, numbers}},
                                 .limits = limits,
                                 .json = json});
  });
}

}  // namespace planner
