// The machines and the engine that a run is planned for.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "options/options.h"
#include "plan/hardware.h"
#include "planning/listed_model.h"
#include "planning/run_plan.h"

namespace trainer {

struct PlanTarget {
  fsdp::plan::Hardware hardware;
  std::string engine = "libfsdp";  // one of plan_engines()
  int64_t hosts = 1;
  double memory = 0;          // bytes of a rank's device; of a host of CPUs
  bool has_wide_loss = true;  // engines of others compute the loss in fp32
  bool has_skew = true;       // their steps contain the waits for late ranks (ShardedEngine::skew)
  // The machine at hand as a dry run has it, whose memory, processes and validations count; none: only the devices of
  // the hardware are known.
  std::shared_ptr<const RunPlan> here = nullptr;
  // The model, where its parameters alone are known; none: that of the options.
  std::shared_ptr<const ListedModel> listed = nullptr;
};

// libfsdp, and the engines of plan/engine_profile.h and plan/megatron_step.h.
std::vector<std::string> plan_engines();

// Hosts of equally many ranks each: as few as have room, unless they are given. Ranks on CPUs are on one host.
int64_t hosts_of_run(const RunOptions& options, const fsdp::plan::Hardware& hardware);

// The plan of a run on the target's devices. `options` are resolved.
RunPlan plan_on(const PlanTarget& target, const RunOptions& options);

}  // namespace trainer
