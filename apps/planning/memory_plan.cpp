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
  int64_t passing = 0;  // sums of other hosts' ranks, in fp32
};

UnitSizes sizes_of(const PlannedUnit& unit, const PlannedSharding& sharding) {
  UnitSizes sizes;
  for (const PlannedParameter& parameter : unit) {
    sizes.used += rounded_up(parameter.numel);
    if (parameter.is_trained) sizes.trained += rounded_up(parameter.numel);
  }
  auto slice_of = [&](int64_t numel) { return rounded_up((numel + sharding.ranks - 1) / sharding.ranks); };
  sizes.slice = slice_of(sizes.used);
  if (!sharding.on_gpus) sizes.passing = (sharding.hosts - 1) * slice_of(sizes.trained);
  sizes.full = sizes.slice * sharding.ranks;
  sizes.shard = sizes.full / sharding.group;
  return sizes;
}

ElementRange shard_of(const UnitSizes& sizes, const PlannedSharding& sharding, int64_t rank) {
  const int64_t begin = rank % sharding.group * sizes.shard;
  return {begin, begin + sizes.shard};
}

// State is per piece, without padding.
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

// The sums of a shard's gradients; one rank alone keeps autograd's own, without padding.
int64_t gradient_numel(const PlannedUnit& unit, ElementRange shard, bool is_padded) {
  int64_t numel = 0, offset = 0;
  for (const PlannedParameter& parameter : unit) {
    const int64_t padded = rounded_up(parameter.numel);
    if (parameter.is_trained) numel += is_padded ? common_numel({offset, offset + padded}, shard) : parameter.numel;
    offset += padded;
  }
  return numel;
}

// This rank's part of what a save writes, without padding.
int64_t saved_bytes(const PlannedUnit& unit, ElementRange shard, const PlannedSharding& sharding) {
  int64_t bytes = state_bytes(unit, shard, sharding), offset = 0;
  for (const PlannedParameter& parameter : unit) {
    bytes += kFloatBytes * common_numel({offset, offset + parameter.numel}, shard);
    offset += rounded_up(parameter.numel);
  }
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
  int64_t all_full = 0, largest_full = 0, all_gradients = 0, largest_gradients = 0, trained_units = 0;
  for (const UnitSizes& unit : units) {
    const int64_t gradients = sharding.reduce_bytes * unit.trained + kFloatBytes * unit.passing;
    all_full += unit.full;
    all_gradients += gradients;
    trained_units += unit.trained > 0 ? 1 : 0;
    largest_full = std::max(largest_full, unit.full);
    largest_gradients = std::max(largest_gradients, gradients);
  }
  const auto count = static_cast<int64_t>(units.size());
  MemoryPlan plan;
  plan.parameters = all_full / sharding.group * shard_bytes_per_element(sharding);
  const int64_t in_buffers = sharding.shares_buffers ? std::min(sharding.buffers, count) * largest_full : all_full;
  if (sharding.shards_on_host || (sharding.on_gpus && sharding.group > 1) || casts_into_buffers(sharding))
    plan.full_parameters = sharding.param_bytes * in_buffers;
  if (sharding.ranks == 1) return plan;
  // One buffer that stays open for the first unit, one that fills, and one that is reduced.
  const int64_t buffers = std::min<int64_t>(units.front().trained > 0 ? 3 : 2, trained_units);
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
  int64_t all = 0, largest = 0;
  for (const UnitSizes& unit : units) {
    all += unit.full;
    largest = std::max(largest, unit.full);
  }
  if (!sharding.shares_buffers) return all / ranks_of_host - all / sharding.group;
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

UnitState unit_state(const PlannedUnit& unit, const UnitSizes& sizes, const PlannedSharding& sharding, int64_t rank) {
  const ElementRange shard = shard_of(sizes, sharding, rank);
  return {.parameters = sizes.shard * shard_bytes_per_element(sharding),
          .gradients = kFloatBytes * gradient_numel(unit, shard, sharding.ranks > 1),
          .optimizer = state_bytes(unit, shard, sharding)};
}

// Blocks are alike: each kind of unit is looked at once.
struct EqualUnits {
  PlannedUnit unit;
  UnitSizes sizes;
  int64_t count = 1;
};

std::vector<EqualUnits> equal_units(const std::vector<PlannedUnit>& units, const PlannedSharding& sharding) {
  std::vector<EqualUnits> kinds;
  for (const PlannedUnit& unit : units) {
    if (!kinds.empty() && kinds.back().unit == unit) {
      ++kinds.back().count;
    } else {
      kinds.push_back({unit, sizes_of(unit, sharding)});
    }
  }
  return kinds;
}

}  // namespace

PlannedSharding planned_sharding(const RunOptions& options, int64_t hosts, bool on_gpus) {
  const bool whole_step = options.strategy == "shard-optimizer" || options.strategy == "no-shard";
  const bool until_backward_ends = options.strategy.ends_with("shard-grad-op");
  const bool replicas_only = options.strategy == "no-shard";
  auto bytes_of = [](const std::string& dtype) { return dtype == "fp32" ? 4 : 2; };
  const PlannedMoment moment = options.optimizer_state == "8bit" ? PlannedMoment{.per_element = 1, .per_block = 4}
                                                                 : PlannedMoment{bytes_of(options.optimizer_state)};
  const int64_t largest_group = options.strategy.starts_with("hybrid") ? options.ranks / hosts : options.ranks;
  const int64_t group = options.shard_group_size == 0 ? largest_group : options.shard_group_size;
  return {.ranks = options.ranks,
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
  for (const EqualUnits& kind : kinds) sizes.insert(sizes.end(), static_cast<size_t>(kind.count), kind.sizes);
  const int64_t ranks_of_host = sharding.ranks / sharding.hosts;
  std::vector<MemoryPlan> plans(static_cast<size_t>(ranks_of_host), common_part(sizes, sharding));
  for (int64_t rank = 0; rank < ranks_of_host; ++rank) {
    MemoryPlan& plan = plans[static_cast<size_t>(rank)];
    plan.full_parameters += sharding.param_bytes * fetched_numel(sizes, sharding, rank);
    if (sharding.offloads_shards && !sharding.shares_buffers && !sharding.on_gpus)
      plan.offloaded = plan.full_parameters;
    int64_t largest = 0;
    for (const auto& [unit, unit_sizes, count] : kinds) {
      const UnitState state = unit_state(unit, unit_sizes, sharding, rank);
      plan.optimizer += count * state.optimizer;
      plan.gradients += count * state.gradients;
      plan.offloaded += count * state.offloaded(sharding);
      largest = std::max(largest, state.offloaded(sharding));
      // The first group has all of it once.
      if (sharding.copies_for_saves && rank < sharding.group)
        plan.save_copy += count * saved_bytes(unit, shard_of(unit_sizes, sharding, rank), sharding);
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
