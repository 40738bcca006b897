#include "training/memory_guard.h"

#include <fmt/format.h>
#include <fsdp/freed_memory.h>

#include "console/terminal.h"
#include "planning/dry_run.h"
#include "planning/fit.h"
#include "planning/planned_activations.h"
#include "run/first_rank.h"
#include "run/sharding.h"

namespace trainer {

void check_activation_memory(fsdp::World& world, const RunOptions& options) {
  if (!options.activation_memory) return;
  from_first_rank(world, [&] {
    budgeted_activations(options, world.device().is_cuda());
    return std::string();
  });
}

void check_memory(fsdp::World& world, const RunOptions& options, const FreeMemory& free) {
  if (options.ignore_memory) return fsdp::return_freed_memory();
  const std::string kBarely = "barely";
  const std::string found = from_first_rank(world, [&]() -> std::string {
    const RunPlan plan = plan_here(world, options, free);
    const Fit its_fit = fit(plan);
    if (its_fit != Fit::kNot && fits_on_disk(plan)) return its_fit == Fit::kBarely ? kBarely : "";
    print(memory_table(plan) + "\n" + fit_text(plan) + "\n");
    if (its_fit != Fit::kNot) {
      throw fsdp::Error(
          fmt::format("the disk of '{}' has too little free space for the run (see the table). Free some, or name a "
                      "folder on another disk with --offload-directory.",
                      offload_folder_of(options).string()));
    }
    throw fsdp::Error(
        fmt::format("the run needs more memory than {} left for it, see the table. Make one of the changes there, end "
                    "other programs, or train anyway with --ignore-memory.",
                    plan.host.on_gpus ? "the GPUs of this host have" : "this host has"));
  });
  if (found == kBarely) fsdp::return_freed_memory();
}

}  // namespace trainer
