#include "training/profile_plan.h"

#include <fmt/format.h>

#include <utility>

#include "console/units.h"
#include "planning/plan_numbers.h"
#include "planning/run_time.h"
#include "run/first_rank.h"
#include "training/this_host.h"

namespace trainer {

namespace {

// None for a run that cannot be planned.
std::optional<ProfilePlan> memory_plan(fsdp::World& world, const RunOptions& options) try {
  const PlannedMemory memory = memory_of_largest_rank(plan_here(world, options, {}));
  return ProfilePlan{.memory = {{"parameters", memory.parameters},
                                {"gradients", memory.gradients},
                                {"optimizer", memory.optimizer},
                                {"full parameters", memory.full_parameters},
                                {"full gradients", memory.full_gradients},
                                {"activations", memory.activations},
                                {"other tensors", memory.others}},
                     .peak_bytes = memory.peak};
} catch (const fsdp::Error&) {
  return std::nullopt;
}

}  // namespace

std::optional<ProfilePlan> profile_plan(fsdp::World& world, const RunOptions& options) {
  if (options.profile.empty()) return std::nullopt;
  std::optional<ProfilePlan> plan;
  from_first_rank(world, [&] {
    plan = memory_plan(world, options);
    return std::string();
  });
  return plan;
}

ProfilePlan with_time(ProfilePlan plan, const RunOptions& options, double flops) {
  const double of_rank = flops / static_cast<double>(options.ranks);
  if (of_rank <= 0) return plan;
  plan.idle_share = idle_share_of(options);
  plan.step_seconds = step_seconds(options, of_rank) / (1 - plan.idle_share);
  plan.assumed = fmt::format("steps reach {:.0f} % of {} per rank, as measured in products of large matrices",
                             100 * kExpectedMfu, operation_rate(of_rank));
  return plan;
}

}  // namespace trainer
