#include "planning/memory_plan.h"

#include <algorithm>
#include <numeric>

#include "layout/gradient_layout.h"
#include "layout/unit_layout.h"

namespace trainer {

namespace {

using fsdp::layout::GradientLayout;
using fsdp::layout::UnitLayout;

constexpr int64_t kFloatBytes = 4;

// A group that does not divide the ranks is refused when the model is sharded: here it is one that does.
UnitLayout layout_of(const std::vector<int64_t>& numels, const PlannedSharding& sharding) {
  return {numels, static_cast<int>(sharding.ranks), static_cast<int>(std::gcd(sharding.ranks, sharding.group))};
}

UnitLayout layout_of(const PlannedUnit& unit, const PlannedSharding& sharding) {
  std::vector<int64_t> numels;
  for (const PlannedParameter& parameter : unit) numels.push_back(parameter.numel);
  return layout_of(numels, sharding);
}

GradientLayout gradients_of(const PlannedUnit& unit, const UnitLayout& layout) {
  std::vector<uint8_t> wanted;
  for (const PlannedParameter& parameter : unit) wanted.push_back(parameter.is_trained ? 1 : 0);
  return {layout, wanted};
}

// Units that are alike, which the blocks are: as the library lays them out.
struct EqualUnits {
  EqualUnits(const PlannedUnit& parameters, const PlannedSharding& sharding)
      : unit(parameters), layout(layout_of(parameters, sharding)), gradients(gradients_of(parameters, layout)) {}

  PlannedUnit unit;
  UnitLayout layout;
  GradientLayout gradients;
  int64_t count = 1;
};

std::vector<EqualUnits> equal_units(const std::vector<PlannedUnit>& units, const PlannedSharding& sharding) {
  std::vector<EqualUnits> kinds;
  for (const PlannedUnit& unit : units) {
    if (!kinds.empty() && kinds.back().unit == unit) {
      ++kinds.back().count;
    } else {
      kinds.emplace_back(unit, sharding);
    }
  }
  return kinds;
}

// A unit as it lies in memory, in elements.
struct UnitSizes {
  int64_t full = 0;
  int64_t shard = 0;
  int64_t trained = 0;  // what its gradients take
  int64_t passing = 0;  // sums of other hosts' ranks, in fp32
};

UnitSizes sizes_of(const EqualUnits& units, const PlannedSharding& sharding) {
  const int64_t trained = units.gradients.full_numel();
  return {
      .full = units.layout.full_numel(),
      .shard = units.layout.shard_numel(),
      .trained = trained,
      .passing = sharding.on_gpus ? 0 : (sharding.hosts - 1) * layout_of(std::vector{trained}, sharding).slice_numel()};
}

// State is per piece, without padding.
int64_t state_bytes(const EqualUnits& units, const PlannedSharding& sharding, int rank) {
  int64_t bytes = 0;
  for (size_t i = 0; i < units.unit.size(); ++i) {
    const PlannedParameter& parameter = units.unit[i];
    const int64_t numel = units.layout.piece_of(i, rank).numel();
    const bool one_tensor = sharding.muon && parameter.is_layer_matrix;
    if (parameter.is_trained) bytes += one_tensor ? kFloatBytes * numel : 2 * sharding.moment.bytes(numel);
  }
  return bytes;
}

// The sums of a shard's gradients; one rank alone keeps autograd's own, without padding.
int64_t gradient_numel(const EqualUnits& units, const PlannedSharding& sharding, int rank) {
  if (sharding.ranks > 1) return units.gradients.shard_of(rank).numel();
  int64_t numel = 0;
  for (const PlannedParameter& parameter : units.unit) numel += parameter.is_trained ? parameter.numel : 0;
  return numel;
}

// This rank's part of what a save writes, without padding.
int64_t saved_bytes(const EqualUnits& units, const PlannedSharding& sharding, int rank) {
  int64_t bytes = state_bytes(units, sharding, rank);
  for (size_t i = 0; i < units.unit.size(); ++i) bytes += kFloatBytes * units.layout.piece_of(i, rank).numel();
  return bytes;
}

// A single GPU casts units into buffers, and holds no second copy of the shard.
bool casts_into_buffers(const PlannedSharding& sharding) {
  return sharding.on_gpus && sharding.ranks == 1 && !sharding.shards_on_host && sharding.shares_buffers &&
         sharding.param_bytes < kFloatBytes;
}

// In fp32, and in the dtype that is gathered where that is another.
int64_t shard_bytes_per_element(const PlannedSharding& sharding) {
  const bool has_copy = sharding.param_bytes < kFloatBytes && !casts_into_buffers(sharding);
  return kFloatBytes + (has_copy ? sharding.param_bytes : 0);
}

// Memory that every rank holds alike.
MemoryPlan common_part(const std::vector<UnitSizes>& units, const PlannedSharding& sharding) {
  int64_t all_full = 0, all_shards = 0, largest_full = 0, all_gradients = 0, largest_gradients = 0, trained_units = 0;
  for (const UnitSizes& unit : units) {
    const int64_t gradients = sharding.reduce_bytes * unit.trained + kFloatBytes * unit.passing;
    all_full += unit.full;
    all_shards += unit.shard;
    all_gradients += gradients;
    trained_units += unit.trained > 0 ? 1 : 0;
    largest_full = std::max(largest_full, unit.full);
    largest_gradients = std::max(largest_gradients, gradients);
  }
  const auto count = static_cast<int64_t>(units.size());
  MemoryPlan plan;
  plan.parameters = all_shards * shard_bytes_per_element(sharding);
  const int64_t in_buffers = sharding.shares_buffers ? std::min(sharding.buffers, count) * largest_full : all_full;
  if (sharding.shards_on_host || (sharding.on_gpus && sharding.group > 1) || casts_into_buffers(sharding))
    plan.full_parameters = sharding.param_bytes * in_buffers;
  if (sharding.ranks == 1) return plan;
  // One buffer that may stay open for the first unit, one that fills, and one that is reduced.
  const bool stays_open = sharding.first_unit_stays_open && units.front().trained > 0;
  const int64_t buffers = std::min<int64_t>(stays_open ? 3 : 2, trained_units);
  if (!sharding.sums_in_place)
    plan.full_gradients = sharding.full_for_the_step ? all_gradients : buffers * largest_gradients;
  if (!sharding.on_gpus && sharding.group > 1 && sharding.hosts == 1) plan.copies = sharding.param_bytes * in_buffers;
  return plan;
}

bool spans_hosts(const PlannedSharding& sharding) {
  return !sharding.on_gpus && sharding.ranks / sharding.hosts % sharding.group != 0;
}

// A unit that comes over the network lies in memory that the ranks of a host share: in the first one's buffers, or,
// where it stays full, in a part of each.
int64_t fetched_numel(const std::vector<UnitSizes>& units, const PlannedSharding& sharding, int64_t rank) {
  const int64_t ranks_of_host = sharding.ranks / sharding.hosts;
  if (!spans_hosts(sharding)) return 0;
  int64_t all = 0, shards = 0, largest = 0;
  for (const UnitSizes& unit : units) {
    all += unit.full;
    shards += unit.shard;
    largest = std::max(largest, unit.full);
  }
  if (!sharding.shares_buffers) return all / ranks_of_host - shards;
  return rank == 0 ? std::min(sharding.buffers, static_cast<int64_t>(units.size())) * largest : 0;
}

// Full units are the files of the ranks that hold the model once, and take memory once for them. Units that come over
// the network for each use lie in buffers.
int64_t full_in_files(const std::vector<UnitSizes>& units, const PlannedSharding& sharding) {
  if (!sharding.offloads_shards || (spans_hosts(sharding) && sharding.shares_buffers)) return 0;
  int64_t all = 0, largest = 0;
  for (const UnitSizes& unit : units) {
    all += unit.full;
    largest = std::max(largest, unit.full);
  }
  const auto buffers = std::min(sharding.buffers, static_cast<int64_t>(units.size()));
  return sharding.param_bytes * (sharding.shares_buffers ? buffers * largest : all);
}

// The state of one unit for a step: this rank's shard, the sum of its gradients, the optimizer's state.
struct UnitState {
  int64_t parameters = 0, gradients = 0, optimizer = 0;
  // Sums that replicas read stay in memory, and so do those of one rank alone, which are autograd's own.
  int64_t offloaded(const PlannedSharding& sharding) const {
    const bool sums = sharding.ranks > 1 && sharding.group == sharding.ranks;
    return (sharding.offloads_state ? optimizer : 0) +
           (sharding.offloads_shards ? parameters + (sums ? gradients : 0) : 0);
  }
};

UnitState unit_state(const EqualUnits& units, const PlannedSharding& sharding, int rank) {
  return {.parameters = units.layout.shard_numel() * shard_bytes_per_element(sharding),
          .gradients = kFloatBytes * gradient_numel(units, sharding, rank),
          .optimizer = state_bytes(units, sharding, rank)};
}

}  // namespace

PlannedSharding planned_sharding(const RunOptions& options, int64_t hosts, bool on_gpus) {
  const bool whole_step = options.strategy == "shard-optimizer" || options.strategy == "no-shard";
  const bool until_backward_ends = options.strategy.ends_with("shard-grad-op");
  const bool replicas_only = options.strategy == "no-shard";
  auto bytes_of = [](const std::string& dtype) { return dtype == "fp32" ? 4 : 2; };
  const PlannedMoment moment = options.optimizer_state == "8bit" ? PlannedMoment{.per_element = 1, .per_block = 4}
                                                                 : PlannedMoment{bytes_of(options.optimizer_state)};
  const int64_t ranks = options.data_ranks();
  const int64_t largest_group = options.strategy.starts_with("hybrid") ? ranks / hosts : ranks;
  const int64_t group = options.shard_group_size == 0 ? largest_group : options.shard_group_size;
  return {.ranks = ranks,
          .hosts = hosts,
          .group = replicas_only ? 1 : group,
          .full_for_the_step = whole_step,
          .sums_in_place =
              replicas_only && options.reduce_dtype == "fp32" && options.micro_batches == 1 && hosts == 1 && !on_gpus,
          .one_micro_batch = options.micro_batches == 1,
          .param_bytes = bytes_of(options.param_dtype),
          .reduce_bytes = bytes_of(options.reduce_dtype),
          .buffers = options.buffers,
          .shares_buffers = !whole_step && !until_backward_ends,
          .on_gpus = on_gpus,
          .shards_on_host = on_gpus && options.cpu_offload,
          .muon = options.optimizer == "muon",
          .moment = moment,
          .offloads_state = options.offloads(),
          .offloads_shards = options.offload == "all",
          .copies_for_saves = options.saves_beside_steps() && !options.offloads() && !on_gpus};
}

std::vector<MemoryPlan> plan_memory(const std::vector<PlannedUnit>& units, const PlannedSharding& sharding) {
  const std::vector<EqualUnits> kinds = equal_units(units, sharding);
  std::vector<UnitSizes> sizes;
  for (const EqualUnits& kind : kinds)
    sizes.insert(sizes.end(), static_cast<size_t>(kind.count), sizes_of(kind, sharding));
  const auto ranks_of_host = static_cast<int>(sharding.ranks / sharding.hosts);
  std::vector<MemoryPlan> plans(static_cast<size_t>(ranks_of_host), common_part(sizes, sharding));
  for (int rank = 0; rank < ranks_of_host; ++rank) {
    MemoryPlan& plan = plans[static_cast<size_t>(rank)];
    plan.full_parameters += sharding.param_bytes * fetched_numel(sizes, sharding, rank);
    if (sharding.offloads_shards && !sharding.shares_buffers && !sharding.on_gpus)
      plan.offloaded = plan.full_parameters;
    int64_t largest = 0;
    for (const EqualUnits& kind : kinds) {
      const UnitState state = unit_state(kind, sharding, rank);
      plan.optimizer += kind.count * state.optimizer;
      plan.gradients += kind.count * state.gradients;
      plan.offloaded += kind.count * state.offloaded(sharding);
      largest = std::max(largest, state.offloaded(sharding));
      // The first group has all of it once.
      if (sharding.copies_for_saves && rank < sharding.group)
        plan.save_copy += kind.count * saved_bytes(kind, sharding, rank);
    }
    // One rank alone has only autograd's own gradients.
    if (sharding.ranks == 1 && sharding.one_micro_batch && !sharding.shards_on_host) plan.late = plan.gradients;
    // A step works on one unit while the next is read ahead.
    plan.resident =
        std::min(plan.offloaded, 2 * largest) + (rank % sharding.group == 0 ? full_in_files(sizes, sharding) : 0);
    if (sharding.shards_on_host)
      plan.on_host = plan.parameters + plan.gradients + plan.optimizer - plan.offloaded + plan.resident;
  }
  return plans;
}

}  // namespace trainer
