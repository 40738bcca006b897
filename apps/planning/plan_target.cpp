#include "planning/plan_target.h"

#include "plan/engine_profile.h"

namespace trainer {

std::vector<std::string> plan_engines() {
  std::vector<std::string> engines = fsdp::plan::sharded_engines();
  engines.emplace_back("megatron");
  return engines;
}

int64_t hosts_of_run(const RunOptions& options, const fsdp::plan::Hardware& hardware) {
  if (options.hosts) return *options.hosts;
  if (hardware.has_cpus()) return 1;
  int64_t hosts = hardware.hosts_for(options.ranks);
  while (options.ranks % hosts != 0) ++hosts;
  return hosts;
}

RunPlan plan_on(const PlanTarget& target, const RunOptions& options) {
  if (target.here != nullptr) {
    RunPlan plan = *target.here;
    plan.options = options;
    return plan;
  }
  return {.options = options,
          .hosts = target.hosts,
          .host = {.on_gpus = !target.hardware.has_cpus(),
                   .memory = target.memory,
                   .process_bytes = target.hardware.process_bytes,
                   .program_bytes = target.hardware.program_bytes},
          .validates = false};
}

}  // namespace trainer
