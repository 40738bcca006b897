#include "fsdp-calibrate/measured_steps.h"

#include <fsdp/fsdp.h>

#include <chrono>
#include <memory>

#include "models/language_model.h"
#include "plan/libfsdp_step.h"
#include "planning/planned_time.h"
#include "run/sharding.h"

namespace calibration {

namespace {

using Clock = std::chrono::steady_clock;
using fsdp::plan::CpuShare;
using fsdp::plan::Hardware;

struct StepTimes {
  double step, update;  // seconds, the first with the second
};

trainer::RunOptions small_run(int64_t width, const fsdp::World& world, const CpuShare& share) {
  trainer::RunOptions options;
  options.model = {.vocabulary = 256, .context = 128, .width = width, .layers = 6, .heads = width / 64};
  options.ranks = world.size();
  options.batch = 8;
  options.param_dtype = share.element == 4 ? "fp32" : "bf16";
  options.clip = 1;
  return options;
}

// Medians, after two steps in which memory is allocated.
StepTimes trained(fsdp::World& world, const Effort& effort, const trainer::RunOptions& options) {
  constexpr int kBefore = 2;
  const auto model = models::make_model(options.model);
  fsdp::Options sharding = trainer::sharding_of(options);
  sharding.initialise = true;
  auto sharded = fsdp::shard(*model, world, sharding);
  fsdp::AdamW optimizer(sharded);
  const torch::Tensor tokens =
      torch::randint(options.model.vocabulary, {options.batch, options.model.context}, torch::kInt64);
  std::vector<double> steps, updates;
  for (int i = 0; i < kBefore + effort.steps; ++i) {
    const Clock::time_point begin = Clock::now();
    model->loss(tokens, tokens).backward();
    const Clock::time_point middle = Clock::now();
    sharded.clip_grad_norm_(options.clip);
    optimizer.step();
    optimizer.zero_grad();
    const Clock::time_point end = Clock::now();
    if (i < kBefore) continue;
    steps.push_back(std::chrono::duration<double>(end - begin).count());
    updates.push_back(std::chrono::duration<double>(end - middle).count());
  }
  return {mean_of_ranks(world, median(steps)), mean_of_ranks(world, median(updates))};
}

}  // namespace

void measure_steps(fsdp::World& world, const Effort& effort, const Hardware& hardware, CpuShare& share) {
  for (const int64_t width : {128, 512}) {
    const trainer::RunOptions options = small_run(width, world, share);
    const StepTimes times = trained(world, effort, options);
    const auto parameters = static_cast<double>(models::parameter_numel(options.model));
    share.update_rate = parameters / static_cast<double>(world.size()) / times.update;
    trainer::PlanTarget target{.hardware = hardware};
    CpuShare plain = share;
    plain.step_factors.clear();
    target.hardware.shares = {plain};
    const double simulated = trainer::planned_step(target, options)->step;
    const double update = times.update;
    share.step_factors[static_cast<double>(width)] = (times.step - update) / (simulated - update);
  }
}

}  // namespace calibration
