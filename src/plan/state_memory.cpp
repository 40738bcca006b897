#include <fsdp/plan.h>

#include <algorithm>
#include <cstddef>
#include <numeric>

#include "base/checked.h"
#include "layout/gradient_layout.h"
#include "layout/unit_layout.h"
#include "plan/checks.h"

namespace fsdp::plan {

namespace {

using layout::GradientLayout;
using layout::UnitLayout;

constexpr int64_t kFloatBytes = 4;

UnitLayout layout_of(const std::vector<int64_t>& numels, const Sharding& sharding) {
  return {numels, static_cast<int>(sharding.ranks), static_cast<int>(sharding.group)};
}

UnitLayout layout_of(const Unit& unit, const Sharding& sharding) {
  std::vector<int64_t> numels;
  for (const Parameter& parameter : unit) numels.push_back(parameter.numel);
  return layout_of(numels, sharding);
}

GradientLayout gradients_of(const Unit& unit, const UnitLayout& layout) {
  std::vector<uint8_t> wanted;
  for (const Parameter& parameter : unit) wanted.push_back(parameter.is_trained ? 1 : 0);
  return {layout, wanted};
}

// Units that are alike, which the blocks are: as the library lays them out.
struct EqualUnits {
  EqualUnits(const Unit& parameters, const Sharding& sharding)
      : unit(parameters), layout(layout_of(parameters, sharding)), gradients(gradients_of(parameters, layout)) {}

  Unit unit;
  UnitLayout layout;
  GradientLayout gradients;
  int64_t count = 1;
};

std::vector<EqualUnits> equal_units(const std::vector<Unit>& units, const Sharding& sharding) {
  std::vector<EqualUnits> kinds;
  for (const Unit& unit : units) {
    const auto kind = std::ranges::find(kinds, unit, &EqualUnits::unit);
    if (kind != kinds.end()) {
      ++kind->count;
    } else {
      kinds.emplace_back(unit, sharding);
    }
  }
  return kinds;
}

// On several hosts of CPUs, a group that neither divides a host's ranks nor is of whole hosts shares no memory: ranks
// exchange as over Gloo.
bool shares_no_memory(const Sharding& sharding) {
  const int64_t ranks_of_host = sharding.ranks / sharding.hosts;
  return !sharding.on_gpus && sharding.hosts > 1 && ranks_of_host % sharding.group != 0 &&
         sharding.group % ranks_of_host != 0;
}

// Sums of gradients that pass through a rank.
int64_t passing_slices(const Sharding& sharding) {
  if (sharding.on_gpus) return 0;
  return shares_no_memory(sharding) ? sharding.ranks - 1 : sharding.hosts - 1;
}

// A unit as it lies in memory, in elements.
struct UnitSizes {
  int64_t full = 0;
  int64_t shard = 0;
  int64_t trained = 0;  // what its gradients take
  int64_t passing = 0;  // sums of other hosts' ranks, in fp32
};

UnitSizes sizes_of(const EqualUnits& units, const Sharding& sharding) {
  const int64_t trained = units.gradients.full_numel();
  return {.full = units.layout.full_numel(),
          .shard = units.layout.shard_numel(),
          .trained = trained,
          .passing = passing_slices(sharding) * layout_of(std::vector{trained}, sharding).slice_numel()};
}

// State is per piece, without padding.
int64_t state_bytes(const EqualUnits& units, const Sharding& sharding, int rank) {
  int64_t bytes = 0;
  for (size_t i = 0; i < units.unit.size(); ++i) {
    const Parameter& parameter = units.unit[i];
    const int64_t numel = units.layout.piece_of(i, rank).numel();
    const bool one_tensor = sharding.muon && parameter.is_layer_matrix;
    if (parameter.is_trained) bytes += one_tensor ? kFloatBytes * numel : 2 * sharding.moment.of(numel);
  }
  return bytes;
}

// The sums of a shard's gradients; one rank alone keeps autograd's own, without padding.
int64_t gradient_numel(const EqualUnits& units, const Sharding& sharding, int rank) {
  if (sharding.ranks > 1) return units.gradients.shard_of(rank).numel();
  int64_t numel = 0;
  for (const Parameter& parameter : units.unit) numel += parameter.is_trained ? parameter.numel : 0;
  return numel;
}

// This rank's part of what a save writes, without padding.
int64_t saved_bytes(const EqualUnits& units, const Sharding& sharding, int rank) {
  int64_t bytes = state_bytes(units, sharding, rank);
  for (size_t i = 0; i < units.unit.size(); ++i) bytes += kFloatBytes * units.layout.piece_of(i, rank).numel();
  return bytes;
}

// A single GPU casts units into buffers, and holds no second copy of the shard.
bool casts_into_buffers(const Sharding& sharding) {
  return sharding.on_gpus && sharding.ranks == 1 && !sharding.shards_on_host && sharding.shares_buffers &&
         sharding.param_bytes < kFloatBytes;
}

// In fp32, and in the dtype that is gathered where that is another.
int64_t shard_bytes_per_element(const Sharding& sharding) {
  const bool has_copy = sharding.param_bytes < kFloatBytes && !casts_into_buffers(sharding);
  return kFloatBytes + (has_copy ? sharding.param_bytes : 0);
}

// Memory that every rank holds alike.
StateMemory common_part(const std::vector<UnitSizes>& units, const Sharding& sharding) {
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
  StateMemory plan;
  plan.parameters = all_shards * shard_bytes_per_element(sharding);
  const int64_t in_buffers = sharding.shares_buffers ? std::min(sharding.buffers, count) * largest_full : all_full;
  const bool has_buffers = (sharding.on_gpus && sharding.group > 1) || shares_no_memory(sharding);
  if (sharding.shards_on_host || has_buffers || casts_into_buffers(sharding))
    plan.full_parameters = sharding.param_bytes * in_buffers;
  if (sharding.ranks == 1) return plan;
  if (sharding.sums_in_place) {
    // The gradients of the next micro-batches lie beside the sums.
    plan.full_gradients = sharding.one_micro_batch ? 0 : all_gradients;
  } else {
    // One buffer that may stay open for the first unit, one that fills, and one that is reduced.
    const bool stays_open = sharding.first_unit_stays_open && units.front().trained > 0;
    const int64_t used = sharding.units_of_backward > 0 ? sharding.units_of_backward : trained_units;
    plan.full_gradients = std::min({int64_t{stays_open ? 3 : 2}, used, trained_units}) * largest_gradients;
  }
  if (!sharding.on_gpus && sharding.group > 1 && sharding.hosts == 1) plan.copies = sharding.param_bytes * in_buffers;
  return plan;
}

bool spans_hosts(const Sharding& sharding) {
  return !sharding.on_gpus && !shares_no_memory(sharding) && sharding.ranks / sharding.hosts % sharding.group != 0;
}

// A unit that comes over the network lies in memory that the ranks of a host share: in the first one's buffers, or,
// where it stays full, in a part of each.
int64_t fetched_numel(const std::vector<UnitSizes>& units, const Sharding& sharding, int64_t rank) {
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
int64_t full_in_files(const std::vector<UnitSizes>& units, const Sharding& sharding) {
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
  int64_t offloaded(const Sharding& sharding) const {
    const bool sums = sharding.ranks > 1 && sharding.group == sharding.ranks;
    return (sharding.offloads_state ? optimizer : 0) +
           (sharding.offloads_shards ? parameters + (sums ? gradients : 0) : 0);
  }
};

UnitState unit_state(const EqualUnits& units, const Sharding& sharding, int rank) {
  return {.parameters = units.layout.shard_numel() * shard_bytes_per_element(sharding),
          .gradients = kFloatBytes * gradient_numel(units, sharding, rank),
          .optimizer = state_bytes(units, sharding, rank)};
}

}  // namespace

int64_t MomentBytes::of(int64_t numel) const {
  const int64_t blocks = numel / 64 + (numel % 64 > 0 ? 1 : 0);
  return checked_add(checked_mul(per_element, numel), checked_mul(per_block, blocks));
}

int64_t numel_of(const Unit& unit) {
  return std::accumulate(unit.begin(), unit.end(), int64_t{0},
                         [](int64_t sum, const Parameter& parameter) { return checked_add(sum, parameter.numel); });
}

std::vector<StateMemory> state_memory(const std::vector<Unit>& units, const Sharding& sharding) {
  check_sharding(sharding);
  check_units(units, sharding);
  const std::vector<EqualUnits> kinds = equal_units(units, sharding);
  std::vector<UnitSizes> sizes;
  for (const EqualUnits& kind : kinds)
    sizes.insert(sizes.end(), static_cast<size_t>(kind.count), sizes_of(kind, sharding));
  const auto ranks_of_host = static_cast<int>(sharding.ranks / sharding.hosts);
  std::vector<StateMemory> plans(static_cast<size_t>(ranks_of_host), common_part(sizes, sharding));
  for (int rank = 0; rank < ranks_of_host; ++rank) {
    StateMemory& plan = plans[static_cast<size_t>(rank)];
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

}  // namespace fsdp::plan
