#include "training/memory_guard.h"

#include "console/terminal.h"
#include "planning/dry_run.h"
#include "planning/fit.h"
#include "planning/measured_activations.h"
#include "run/first_rank.h"

namespace trainer {

void check_activation_memory(fsdp::World& world, const Options& options) {
  if (!options.activation_memory) return;
  from_first_rank(world, [&] {
    measured_activations().plan(options);
    return std::string();
  });
}

void check_memory(fsdp::World& world, const Options& options, const FreeMemory& free) {
  if (options.ignore_memory) return;
  from_first_rank(world, [&] {
    const RunPlan plan = plan_here(world, options, free);
    if (!exceeds_memory(plan)) return std::string();
    print(memory_table(plan) + "\n" + fit_text(plan) + "\n");
    throw fsdp::Error(
        "the run needs more memory than this host has left for it, as the table says. Take one of the changes there, "
        "end other programs, or train all the same with --ignore-memory.");
  });
}

}  // namespace trainer
