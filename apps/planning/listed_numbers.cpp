#include "planning/listed_numbers.h"

#include <utility>

#include "plan/unit_uses.h"
#include "planning/engine_memory.h"
#include "planning/listed_model.h"
#include "planning/planned_sharding.h"

namespace trainer {

namespace {

using fsdp::plan::Sharding;

ModelSizes sizes_of(const ListedModel& model) {
  return {.all = model.numel, .root = model.root_numel(), .block = model.largest_block_numel()};
}

PlannedMemory state_of_rank(const ListedModel& model, const Sharding& sharding) {
  PlannedMemory most;
  for (const fsdp::plan::StateMemory& state : fsdp::plan::state_memory(model.units, sharding)) {
    const PlannedMemory memory = planned_memory(state, 0, 0);
    if (memory.peak > most.peak) most = memory;
  }
  return most;
}

std::vector<fsdp::plan::UnitUses> uses_of(const ListedModel& model, const Sharding& sharding, int64_t micro_batches) {
  const auto count = std::ssize(model.units);
  if (model.has_root) return fsdp::plan::unit_uses(count, sharding, micro_batches);
  const fsdp::plan::Block block{.parameters = {{.numel = 1}}, .is_layer = true};
  return fsdp::plan::unit_uses(std::vector<fsdp::plan::Block>(static_cast<size_t>(count), block), sharding,
                               micro_batches);
}

PlannedCommunication received(const ListedModel& model, const Sharding& sharding, int64_t micro_batches) {
  PlannedCommunication most;
  for (const fsdp::plan::Communication& of_rank :
       fsdp::plan::communication(model.units, sharding, uses_of(model, sharding, micro_batches))) {
    const fsdp::plan::Traffic sum = of_rank.sum();
    if (std::pair(sum.across, sum.within) > std::pair(most.across_hosts, most.within_hosts))
      most = {.within_hosts = sum.within, .across_hosts = sum.across};
  }
  return most;
}

}  // namespace

PlanNumbers listed_numbers(const PlanTarget& target, const RunOptions& options) {
  const ListedModel& model = *target.listed;
  Sharding sharding = planned_sharding(options, target.hosts, /*on_gpus=*/true);
  sharding.first_unit_stays_open = model.has_root;
  PlanNumbers numbers{.parameters = model.numel,
                      .memory = target.engine == "libfsdp" ? state_of_rank(model, sharding)
                                                           : engine_state(target, options, sizes_of(model)),
                      .communication = received(model, sharding, options.micro_batches)};
  numbers.memory.has_activations = false;
  numbers.fits = numbers.memory.peak <= target.memory;
  return numbers;
}

}  // namespace trainer
