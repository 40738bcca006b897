// How a model is made: its parameters move out of the module into shards, and its memory is planned.
#include "engine/parts.h"

#include <algorithm>
#include <span>
#include <utility>

#include "engine/facts.h"
#include "engine/same_model.h"
#include "interpose/piece_storage.h"
#include "interpose/stored_activations.h"
#include "schedule/strategies.h"

namespace fsdp::engine {

namespace {

using schedule::FullUntil;

Units make_units(const ModelSpec& spec, const std::shared_ptr<interpose::Link>& link,
                 std::vector<ShardedParameter>& parameters) {
  torch::NoGradGuard no_grad;
  check_same_model(spec, *spec.group);
  Units units;
  for (const UnitSpec& unit : spec.units) {
    const int id = static_cast<int>(units.size());
    units.push_back(std::make_unique<ShardedUnit>(id, unit, spec, link, parameters));
  }
  return units;
}

schedule::Limits limits_of(const Units& units, const ModelSpec& spec) {
  const bool sums_in_place = !units.empty() && units[0]->sums_in_place();
  return schedule::limits_of(static_cast<int>(units.size()), spec.buffers, spec.prefetch, spec.full_until,
                             sums_in_place);
}

// Buffers of the largest unit's size; those beyond, and where each unit has its own, have the unit's.
int shared_gradient_buffers(const Units& units, const ModelSpec& spec) {
  constexpr int kShared = 4;  // no_sync may need more
  const bool sums_in_place = !units.empty() && units[0]->sums_in_place();
  return sums_in_place && spec.full_until == FullUntil::ShardsChange ? 0 : kShared;
}

buffers::Arena arena_for(const Units& units, const ModelSpec& spec, collectives::Group& group) {
  int64_t full = 0, gradients = 0, staging = 0;
  const auto gradient_bytes = static_cast<int64_t>(c10::elementSize(spec.reduce_dtype));
  for (const auto& unit : units) {
    const layout::GradientLayout& layout = unit->sum.gradient_layout();
    const auto bytes = static_cast<int64_t>(c10::elementSize(unit->dtype()));
    full = std::max(full, unit->layout.full_numel() * bytes);
    gradients = std::max(gradients, layout.full_numel() * gradient_bytes);
    staging = std::max(staging, unit->collectives->staging_numel(layout) * gradient_bytes);
  }
  const int shared = spec.full_until == FullUntil::BufferNeeded ? spec.buffers : 0;
  const int shared_gradients = shared_gradient_buffers(units, spec);
  const auto for_reductions = [&group](int64_t bytes) { return group.allocate(bytes); };
  const buffers::Allocate plain = buffers::allocate_plain(spec.device);
  return {buffers::Pool(shared, full, plain), buffers::Pool(shared_gradients, gradients, for_reductions),
          buffers::Pool(shared_gradients, staging, plain)};
}

NamedTensors buffers_of(const ModelSpec& spec) {
  NamedTensors buffers;
  for (const UnitSpec& unit : spec.units)
    buffers.insert(buffers.end(), unit.tensors.buffers.begin(), unit.tensors.buffers.end());
  return buffers;
}

}  // namespace

Parts::Parts(ModelSpec spec)
    : strategy(spec.strategy),
      shards(spec.shards),
      state_backing(spec.state_backing),
      new_host_group(spec.new_host_group),
      buffers(*spec.group, buffers_of(spec), spec.statistics, spec.broadcast_buffers),
      common_values(spec.check_common_every, spec.shards, spec.sync_module_states),
      first_values(spec),
      units(make_units(spec, link, parameters)),
      recorder(units.size()),
      activations(units.size()),
      activation_budget(spec.activation_memory, spec.recomputed_blocks, activations.count()),
      gradients(units, spec.group->size()),
      performer(units, *spec.group, recorder, gradients, readers, activation_budget,
                arena_for(units, spec, *spec.group), spec.shard_backing),
      peers(*spec.group, recorder, buffers, activation_budget),
      driver(facts_of(units, spec.shards, *spec.group), limits_of(units, spec), performer, gradients, peers,
             {.changed = link->changed, .local_sums = link->local_sums}),
      parameter_writes(units, *spec.group, driver),
      backward(link) {
  group = std::move(spec.group);
  store_activations(spec);
  if (first_values.are_missing()) driver.miss_values();
  if (spec.sync_module_states) broadcast_buffers(0);
  group->barrier();
}

void Parts::store_activations(const ModelSpec& spec) {
  if (!spec.activation_store) return;
  interpose::StoredActivations::Rules rules{.device = spec.device, .least_bytes = spec.least_stored_bytes};
  for (const auto& [name, buffer] : buffers.named()) rules.staying.push_back(buffer);
  activations.store(
      std::make_shared<interpose::StoredActivations>(spec.activation_store, std::move(rules), activations.count()));
}

// A peer may go on for longer, and read what this rank's operators wrote last.
Parts::~Parts() {
  if (!driver.failed()) {
    try {
      driver.publish_pieces();
    } catch (const std::exception&) {  // a destructor cannot throw, and the peers find the failure
    }
  }
  for (auto& unit : units) unit->unbind();
}

void Parts::broadcast_buffers(int source) {
  driver.guarded([&] { buffers.broadcast(source); });
}

void Parts::write_first_values(const std::vector<bool>& loaded) {
  if (!first_values.are_missing()) return;
  torch::NoGradGuard no_grad;
  interpose::Unwatched ours;
  driver.guarded([&] { first_values.write(units, *group, loaded); });
  driver.have_values();
}

// A sum that has not ended has nothing to scale.
void Parts::scale_now() {
  if (driver.machine().sum() == schedule::SumPhase::Closed) gradients.scale_now(parameters);
}

void Parts::check_parameters(std::string_view what) const {
  for (const auto& unit : units) {
    for (const auto& parameter : unit->parameters) parameter.check_attached(what);
  }
}

}  // namespace fsdp::engine
