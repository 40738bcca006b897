#include "planning/memory_plan.h"

#include <algorithm>

namespace trainer {

namespace {

constexpr int64_t kAlignmentNumel = 64, kFloatBytes = 4;

int64_t rounded_up(int64_t numel) { return (numel + kAlignmentNumel - 1) / kAlignmentNumel * kAlignmentNumel; }

struct ElementRange {
  int64_t begin, end;
};
int64_t common_numel(ElementRange a, ElementRange b) {
  return std::max<int64_t>(0, std::min(a.end, b.end) - std::max(a.begin, b.begin));
}

// A unit as it lies in memory, in elements.
struct UnitSizes {
  int64_t used = 0;     // with each parameter padded
  int64_t trained = 0;  // of these, what its gradients take
  int64_t slice = 0;    // that each rank adds up
  int64_t full = 0;
  int64_t shard = 0;
};

UnitSizes sizes_of(const PlannedUnit& unit, const PlannedSharding& sharding) {
  UnitSizes sizes;
  for (const PlannedParameter& parameter : unit) {
    sizes.used += rounded_up(parameter.numel);
    if (parameter.is_trained) sizes.trained += rounded_up(parameter.numel);
  }
  sizes.slice = rounded_up((sizes.used + sharding.ranks - 1) / sharding.ranks);
  sizes.full = sizes.slice * sharding.ranks;
  sizes.shard = sizes.full / sharding.group;
  return sizes;
}

ElementRange shard_of(const UnitSizes& sizes, const PlannedSharding& sharding, int64_t rank) {
  const int64_t begin = rank % sharding.group * sizes.shard;
  return {begin, begin + sizes.shard};
}

// Of pieces, which have no padding.
int64_t state_bytes(const PlannedUnit& unit, ElementRange shard, const PlannedSharding& sharding) {
  int64_t bytes = 0, offset = 0;
  for (const PlannedParameter& parameter : unit) {
    const int64_t numel = common_numel({offset, offset + parameter.numel}, shard);
    const bool one_tensor = sharding.muon && parameter.is_layer_matrix;
    if (parameter.is_trained) bytes += one_tensor ? kFloatBytes * numel : 2 * sharding.moment.bytes(numel);
    offset += rounded_up(parameter.numel);
  }
  return bytes;
}

// The sums of a shard's gradients; one rank alone keeps those that autograd makes, which have no padding.
int64_t gradient_numel(const PlannedUnit& unit, ElementRange shard, bool is_padded) {
  int64_t numel = 0, offset = 0;
  for (const PlannedParameter& parameter : unit) {
    const int64_t padded = rounded_up(parameter.numel);
    if (parameter.is_trained) numel += is_padded ? common_numel({offset, offset + padded}, shard) : parameter.numel;
    offset += padded;
  }
  return numel;
}

// Memory that every rank holds alike.
MemoryPlan common_part(const std::vector<UnitSizes>& units, const PlannedSharding& sharding) {
  int64_t all_full = 0, largest_full = 0, all_trained = 0, largest_trained = 0, trained_units = 0;
  for (const UnitSizes& unit : units) {
    all_full += unit.full;
    all_trained += unit.trained;
    trained_units += unit.trained > 0 ? 1 : 0;
    largest_full = std::max(largest_full, unit.full);
    largest_trained = std::max(largest_trained, unit.trained);
  }
  const auto count = static_cast<int64_t>(units.size());
  MemoryPlan plan;
  plan.parameters =
      all_full / sharding.group * (kFloatBytes + (sharding.param_bytes < kFloatBytes ? sharding.param_bytes : 0));
  if (sharding.ranks == 1) return plan;
  // One buffer that stays open for the first unit, one that fills, and one that is reduced.
  const int64_t buffers = std::min<int64_t>(units.front().trained > 0 ? 3 : 2, trained_units);
  if (!sharding.sums_in_place)
    plan.full_gradients =
        sharding.reduce_bytes * (sharding.full_for_the_step ? all_trained : buffers * largest_trained);
  if (sharding.group > 1) {
    const int64_t copied = sharding.shares_buffers ? std::min(sharding.buffers, count) * largest_full : all_full;
    plan.copies = sharding.param_bytes * copied;
  }
  return plan;
}

}  // namespace

PlannedSharding planned_sharding(const Options& options) {
  const bool whole_step = options.strategy == "shard-optimizer" || options.strategy == "no-shard";
  const bool until_backward_ends = options.strategy.ends_with("shard-grad-op");
  const bool replicas_only = options.strategy == "no-shard";
  auto bytes_of = [](const std::string& dtype) { return dtype == "fp32" ? 4 : 2; };
  const PlannedMoment moment = options.optimizer_state == "8bit" ? PlannedMoment{.per_element = 1, .per_block = 4}
                                                                 : PlannedMoment{bytes_of(options.optimizer_state)};
  const int64_t group = options.shard_group_size == 0 ? options.ranks : options.shard_group_size;
  return {.ranks = options.ranks,
          .group = replicas_only ? 1 : group,
          .full_for_the_step = whole_step,
          .sums_in_place = replicas_only && options.reduce_dtype == "fp32" && options.micro_batches == 1,
          .param_bytes = bytes_of(options.param_dtype),
          .reduce_bytes = bytes_of(options.reduce_dtype),
          .buffers = options.buffers,
          .shares_buffers = !whole_step && !until_backward_ends,
          .muon = options.optimizer == "muon",
          .moment = moment};
}

std::vector<MemoryPlan> plan_memory(const std::vector<PlannedUnit>& units, const PlannedSharding& sharding) {
  std::vector<UnitSizes> sizes;
  for (const PlannedUnit& unit : units) sizes.push_back(sizes_of(unit, sharding));
  std::vector<MemoryPlan> plans(static_cast<size_t>(sharding.ranks), common_part(sizes, sharding));
  for (int64_t rank = 0; rank < sharding.ranks; ++rank) {
    MemoryPlan& plan = plans[static_cast<size_t>(rank)];
    for (size_t i = 0; i < units.size(); ++i) {
      const ElementRange shard = shard_of(sizes[i], sharding, rank);
      plan.optimizer += state_bytes(units[i], shard, sharding);
      plan.gradients += kFloatBytes * gradient_numel(units[i], shard, sharding.ranks > 1);
    }
  }
  return plans;
}

}  // namespace trainer
