#include "training/dry_run_command.h"

#include <fsdp/fsdp.h>
#include <torch/utils.h>

#include <algorithm>
#include <cstdlib>

#include "console/terminal.h"
#include "metrics/machine.h"
#include "options/resolve.h"
#include "planning/assumed.h"
#include "planning/dry_run.h"
#include "planning/measured_passes.h"
#include "planning/peak_flops.h"
#include "run/first_rank.h"
#include "run/problems.h"
#include "run/refuse_together.h"
#include "run/sharding.h"
#include "run/shared_flag.h"
#include "training/planned_run.h"
#include "training/this_host.h"

namespace trainer {

namespace {

// As a run's ranks choose them (fsdp::launch).
int64_t threads_of(const RunPlan& plan) {
  if (plan.options.threads > 0) return plan.options.threads;
  const char* chosen = std::getenv("OMP_NUM_THREADS");
  if (chosen != nullptr && *chosen != '\0') return torch::get_num_threads();
  return std::max<int64_t>(1, usable_cores() / plan.ranks_of_host());
}

// Ranks beyond the cores add nothing to what all reach: they share it.
int ranks_to_measure(const RunOptions& options) {
  return options.peak_flops ? 1 : static_cast<int>(std::clamp<int64_t>(options.ranks, 1, usable_cores()));
}

// A collective.
void measure_work(fsdp::World& world, RunPlan& plan) {
  Host& host = plan.host;
  host.cores = usable_cores();
  host.threads = threads_of(plan);
  if (plan.options.peak_flops) return;
  torch::set_num_threads(static_cast<int>(host.threads));
  const double together = measured_peak_flops(world, compute_dtype_of(plan.options));
  host.peak_flops = together / static_cast<double>(plan.options.ranks);
  if (host.on_gpus) host.passes = measured_passes(world.device(), plan.options);
}

}  // namespace

int dry_run_command(const CommandLine& line, const RunOptions& options, std::optional<int64_t> windows) {
  const FreeMemory free_here = free_memory();
  SharedFlag refused;
  auto rank = [&](fsdp::World& world) {
    RunOptions of_job = options;
    const int64_t ranks = is_started_as_rank() ? world.size() : options.ranks;
    const Job job{.ranks = ranks, .windows = windows, .ranks_are_known = true};
    try {
      plan_options(of_job, job, world, free_here, /*attempt=*/0);
    } catch (const AgreedError& error) {
      if (world.rank() == 0) print_problems({error.what()});
      return refused.set();
    }
    if (refuse_together(world, resolve(of_job, job))) return refused.set();
    RunPlan plan = plan_here(world, of_job, free_here);
    plan.windows = windows;
    measure_work(world, plan);
    if (world.rank() == 0) print(assumed_text(plan.options, line) + planned_text(plan.options) + dry_run_text(plan));
  };
  const int code = fsdp::launch(
      {.ranks = ranks_to_measure(options), .timeout = std::chrono::seconds(options.timeout), .plain_rank0 = true},
      rank);
  return refused.is_set() ? kUsageError : code;
}

}  // namespace trainer
