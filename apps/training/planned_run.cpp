#include "training/planned_run.h"

#include <fmt/format.h>

#include <filesystem>
#include <limits>

#include "options/plan_choice.h"
#include "planning/chosen_setting.h"
#include "run/checkpoints.h"
#include "run/first_rank.h"

namespace trainer {

namespace {

namespace fs = std::filesystem;

bool goes_on(const RunOptions& options, int64_t attempt) {
  const bool names_checkpoint = options.checkpoint.empty() && options.resume != "auto" && options.resume != "never";
  if (names_checkpoint) return true;
  std::error_code ignored;
  if (options.run.empty() || !fs::exists(fs::path(options.run) / "config.toml", ignored)) return false;
  return attempt > 0 || !checkpoints_and_remains_of(options.run).empty();
}

RunOptions resolved_by(const RunOptions& options, const Job& job) {
  RunOptions resolved = options;
  resolve(resolved, job);
  return resolved;
}

// Other ranks than before have other micro-batches of the same size, as with --resume.
PlannedOptions recorded_choice(const RunOptions& options, const Job& job) {
  const PlannedOptions none{.flags = "", .figures = "before: a run that goes on keeps its options"};
  const std::string flag = "--micro-batches";
  RunOptions others = options;
  others.chosen.flags.insert(flag);
  std::string flags = recorded_flags(others);
  if (flags.empty()) return none;
  const int64_t sequences = resolved_by(options, job).step_shape().windows();
  const RunOptions kept = resolved_by(with_flags(options, flags), job);
  const int64_t together = kept.data_ranks() * kept.batch;
  const bool is_given = options.chosen.flags.contains(flag);
  const bool keeps_step = is_given ? together * kept.micro_batches == sequences : sequences % together == 0;
  if (!keeps_step) return none;
  if (!is_given) flags += fmt::format(" {} {}", flag, sequences / together);
  return {.flags = flags, .figures = none.figures};
}

// Ranks on CPUs share the memory of a host.
void agree_on_memory(fsdp::World& world, RunPlan& here) {
  if (!here.host.on_gpus) return;
  torch::Tensor least = torch::tensor({here.host.memory.value_or(std::numeric_limits<double>::max())}, torch::kFloat64);
  world.all_reduce_(least, fsdp::ReduceOp::Min);
  here.host.memory = least[0].item<double>();
}

}  // namespace

void plan_options(RunOptions& options, const Job& job, fsdp::World& world, const FreeMemory& free, int64_t attempt) {
  RunOptions resolved = options;
  if (options.plan.empty() || !resolve(resolved, job).empty()) return;
  RunPlan here = plan_here(world, resolved, free);
  agree_on_memory(world, here);
  const std::string choice = from_first_rank(world, [&] {
    const PlannedOptions chosen = goes_on(options, attempt)
                                      ? recorded_choice(options, job)
                                      : chosen_setting(machine_for_plan(options.plan, gpu_here(world)), here);
    return chosen.flags + "\n" + chosen.figures;
  });
  const size_t end = choice.find('\n');
  options = with_flags(options, choice.substr(0, end));
  options.planned = {.flags = choice.substr(0, end), .figures = choice.substr(end + 1)};
}

}  // namespace trainer
