// From a module and options to a sharded model.
#include <ATen/MemoryOverlap.h>

#include <algorithm>
#include <span>
#include <unordered_map>
#include <unordered_set>

#include "api/module_division.h"
#include "api/offload.h"
#include "api/precision.h"
#include "api/shard_over.h"
#include "api/strategy.h"
#include "base/error.h"
#include "base/names.h"
#include "engine/model.h"
#include "fsdp/sharded_model.h"
#include "interpose/unit_storage.h"
#include "world/state.h"

namespace fsdp {

namespace {

void check_options(const Options& options) {
  check_precision(options.mixed_precision);
  check_offload(options);
  FSDP_CHECK(options.buffers >= 2, "shard: found buffers {}, expected at least 2", options.buffers);
  FSDP_CHECK(options.prefetch >= 0, "shard: found prefetch {}, expected 0 or more", options.prefetch);
}

void check_parameter(const std::string& name, const torch::Tensor& tensor, const torch::Device& device) {
  FSDP_CHECK(interpose::UnitStorage::of(tensor) == nullptr,
             "shard: the parameter {} is sharded already. Call fsdp::shard once for a module.", name);
  FSDP_CHECK(is_supported(tensor.scalar_type()) && tensor.device() == device && tensor.layout() == torch::kStrided,
             "shard: the parameter {} is {} on {}, expected float32, bfloat16 or float16 on {}, this rank's device. "
             "Convert the "
             "module first (module->to(world.device())), or leave the parameter alone with options.ignored.",
             name, toString(tensor.scalar_type()), tensor.device().str(), device.str());
  FSDP_CHECK(
      tensor.is_leaf(),
      "shard: the parameter {} is computed from others, expected a leaf of autograd's graph. Make it a parameter "
      "of its own: register its detach(), with requires_grad_().",
      name);
}

// Two tensors that show the same bytes would be two parameters from now on, each trained by itself.
void check_memory(const std::vector<NamedUnit>& units) {
  using Named = std::pair<std::string, torch::Tensor>;
  std::unordered_map<const void*, std::vector<const Named*>> of_storage;
  for (const NamedUnit& unit : units) {
    for (const Named& parameter : unit.parameters) {
      auto& beside = of_storage[parameter.second.storage().data()];
      for (const Named* other : beside) {
        const at::MemOverlapStatus overlap = at::get_overlap_status(parameter.second, other->second);
        FSDP_CHECK(
            overlap != at::MemOverlapStatus::Full && overlap != at::MemOverlapStatus::Partial,
            "shard: the parameters {} and {} share memory but are two tensors (set_data?), which would no longer "
            "be tied. Tie them by one tensor: register_parameter(name, the other module's parameter).",
            other->first, parameter.first);
      }
      beside.push_back(&parameter);
    }
  }
}

ShardedModel shard_units(const MakeGroup& make_group, std::vector<NamedUnit> units,
                         std::unordered_set<std::string> statistics, World& world, const Options& options) {
  check_options(options);
  const Sharding sharding = sharding_of(options, world);
  std::unordered_set<const at::TensorImpl*> seen;
  for (const NamedUnit& unit : units) {
    for (const auto& [name, tensor] : unit.parameters) {
      check_parameter(name, tensor, world.device());
      FSDP_CHECK_UNIT(seen.insert(tensor.unsafeGetTensorImpl()).second, unit.name,
                      "shard: the parameter {} is in two units, expected in one", name);
    }
  }
  check_memory(units);
  drop_empty(units);
  const MixedPrecision& precision = options.mixed_precision;
  convert_buffers(units, precision);
  const Backings backings = backings_of(options, world);
  auto model = std::make_shared<engine::Model>(
      engine::ModelSpec{.units = divide_by_dtype(std::move(units), precision),
                        .group = is_offloaded_to_cpu(options, world) ? make_offloaded_group(world) : make_group(),
                        .device = world.device(),
                        .strategy = options.strategy,
                        .shards = sharding.shards,
                        .full_until = sharding.full_until,
                        .buffers = options.buffers,
                        .prefetch = options.prefetch,
                        .full_on_each_host = options.full_on_each_host,
                        .shard_backing = backings.shards,
                        .state_backing = backings.states,
                        .reduce_dtype = precision.reduce_dtype,
                        .casts_activations = precision.param_dtype.has_value(),
                        .sync_module_states = options.sync_module_states,
                        .statistics = std::move(statistics),
                        .broadcast_buffers = options.broadcast_buffers});
  // A rank that waits in a call of the world's keeps nobody waiting for what its optimizer wrote.
  world.state()->before_calls([observer = std::weak_ptr(model)] {
    const auto alive = observer.lock();
    if (alive) alive->publish_pieces();
    return alive != nullptr;
  });
  return ShardedModel(std::move(model));
}

MakeGroup of_its_own(World& world) {
  return [&world] { return world.state()->new_group(); };
}

}  // namespace

ShardedModel shard(std::vector<NamedUnit> units, World& world, Options options) {
  FSDP_CHECK(options.ignored.empty(),
             "shard: options.ignored chooses among the tensors of a module, and these units are given by hand. Leave "
             "them out of the units.");
  return shard_units(of_its_own(world), std::move(units), {}, world, options);
}

ShardedModel shard(torch::nn::Module& module, World& world, Options options) {
  return shard_over(of_its_own(world), module, world, options);
}

ShardedModel shard_over(const MakeGroup& make_group, torch::nn::Module& module, World& world, const Options& options) {
  ModuleDivision division = divide(module, options);
  if (world.rank() == 0) warn_of_large_units(division);
  return shard_units(make_group, std::move(division.units), std::move(division.statistics), world, options);
}

}  // namespace fsdp
