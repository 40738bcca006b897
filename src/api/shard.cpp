// From a module and options to a sharded model.
#include <ATen/MemoryOverlap.h>

#include <algorithm>
#include <span>
#include <unordered_map>
#include <unordered_set>

#include "api/budgeted_modules.h"
#include "api/module_division.h"
#include "api/offload.h"
#include "api/precision.h"
#include "api/shard_over.h"
#include "api/strategy.h"
#include "base/error.h"
#include "base/names.h"
#include "deferred/default_generator.h"
#include "deferred/real_tensors.h"
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

// Equal for tensors that may show the same bytes.
const void* memory_of(const torch::Tensor& tensor) {
  if (is_deferred(tensor)) return tensor.storage().unsafeGetStorageImpl();
  return tensor.storage().data();
}

// Whether two tensors of the same memory show bytes of which some are the same.
bool overlap(const torch::Tensor& a, const torch::Tensor& b) {
  if (is_deferred(a)) {
    const auto end = [](const torch::Tensor& one) { return one.storage_offset() + static_cast<int64_t>(one.numel()); };
    return a.storage_offset() < end(b) && b.storage_offset() < end(a);
  }
  const at::MemOverlapStatus status = at::get_overlap_status(a, b);
  return status == at::MemOverlapStatus::Full || status == at::MemOverlapStatus::Partial;
}

// Two tensors that show the same bytes would be two parameters from now on, each trained by itself.
void check_memory(const std::vector<NamedUnit>& units) {
  using Named = std::pair<std::string, torch::Tensor>;
  std::unordered_map<const void*, std::vector<const Named*>> of_storage;
  for (const NamedUnit& unit : units) {
    for (const Named& parameter : unit.parameters) {
      auto& beside = of_storage[memory_of(parameter.second)];
      for (const Named* other : beside) {
        FSDP_CHECK(
            !overlap(parameter.second, other->second),
            "shard: the parameters {} and {} share memory but are two tensors (set_data?), which would no longer "
            "be tied. Tie them by one tensor: register_parameter(name, the other module's parameter).",
            other->first, parameter.first);
      }
      beside.push_back(&parameter);
    }
  }
}

// Of deferred modules: all but the parameters of the units. Returns whether some of those are deferred.
bool make_rest_real(const std::vector<NamedUnit>& units) {
  std::vector<torch::Tensor> parameters, buffers;
  for (const NamedUnit& unit : units) {
    for (const auto& [name, tensor] : unit.parameters) parameters.push_back(tensor);
    for (const auto& [name, tensor] : unit.buffers) buffers.push_back(tensor);
  }
  const bool any = std::ranges::any_of(parameters, is_deferred);
  if (any) deferred::check_not_drawn();
  deferred::make_real_beside(parameters, buffers);
  return any;
}

// Those that options.ignored leaves alone.
std::vector<torch::Tensor> ignored_tensors(const torch::nn::Module& module, const Options& options) {
  std::vector<torch::Tensor> ignored;
  const auto add = [&](const auto& named) {
    for (const auto& tensor : named) {
      if (matches_any(options.ignored, tensor.key())) ignored.push_back(tensor.value());
    }
  };
  add(module.named_parameters());
  add(module.named_buffers());
  return ignored;
}

ShardedModel shard_units(const MakeGroup& make_group, std::vector<NamedUnit> units,
                         std::unordered_set<std::string> statistics, const BudgetedModules& budgeted, World& world,
                         const Options& options) {
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
  const bool any_deferred = make_rest_real(units);
  drop_empty(units);
  const MixedPrecision& precision = options.mixed_precision;
  convert_buffers(units, precision);
  const Backings backings = backings_of(options, world);
  auto model = std::make_shared<engine::Model>(
      engine::ModelSpec{.units = divide_by_dtype(std::move(units), precision),
                        .group = is_offloaded_to_cpu(options, world) ? make_offloaded_group(world) : make_group(),
                        .new_host_group = [state = world.state()] { return state->new_host_group(); },
                        .device = world.device(),
                        .strategy = options.strategy,
                        .shards = sharding.shards,
                        .full_until = sharding.full_until,
                        .buffers = options.buffers,
                        .prefetch = options.prefetch,
                        .full_on_each_host = options.full_on_each_host,
                        .shard_backing = backings.shards,
                        .sum_backing = backings.sums,
                        .state_backing = backings.states,
                        .in_files = backings.in_files,
                        .activation_store = backings.activations,
                        .least_stored_bytes = options.offload_activations_from,
                        .reduce_dtype = precision.reduce_dtype,
                        .casts_activations = precision.param_dtype.has_value(),
                        .sync_module_states = options.sync_module_states,
                        .initialise = options.initialise,
                        .statistics = std::move(statistics),
                        .broadcast_buffers = options.broadcast_buffers,
                        .activation_memory = options.activation_memory,
                        .recomputed_blocks = block_names(budgeted)});
  give_budgets(budgeted, model->parts().activation_budget);
  if (any_deferred && options.initialise) deferred::settle_draws();
  // A rank that waits in a call of the world's keeps nobody waiting for what its optimizer wrote.
  world.state()->before_calls([observer = std::weak_ptr(model)] {
    const auto alive = observer.lock();
    if (alive) alive->publish_pieces();
    return alive != nullptr;
  });
  world.state()->tell_of_calls([observer = std::weak_ptr(model)](const collectives::WorldCall* call) {
    const auto alive = observer.lock();
    if (alive) alive->group().note_call(call);
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
  check_no_budget(options);
  return shard_units(of_its_own(world), std::move(units), {}, {}, world, options);
}

ShardedModel shard(torch::nn::Module& module, World& world, Options options) {
  return shard_over(of_its_own(world), module, world, options);
}

ShardedModel shard_over(const MakeGroup& make_group, torch::nn::Module& module, World& world, const Options& options) {
  const BudgetedModules budgeted = budgeted_modules(module, options);
  ModuleDivision division = divide(module, options);
  if (world.rank() == 0) warn_of_large_units(division);
  deferred::make_real(ignored_tensors(module, options));
  return shard_units(make_group, std::move(division.units), std::move(division.statistics), budgeted, world, options);
}

}  // namespace fsdp
