// From a module and options to a sharded model.
#include <algorithm>
#include <unordered_set>

#include "api/aliases.h"
#include "api/budgeted_modules.h"
#include "api/given_units.h"
#include "api/module_division.h"
#include "api/offload.h"
#include "api/precision.h"
#include "api/shard_over.h"
#include "api/shared_memory.h"
#include "api/strategy.h"
#include "api/tensor_parallel/tensor_axis.h"
#include "api/tensor_parallel/whole_values.h"
#include "api/whole_model.h"
#include "base/error.h"
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
  FSDP_CHECK(options.check_common_every >= 0, "shard: found check_common_every {}, expected 0 or more",
             options.check_common_every);
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

void check_parameters(const std::vector<NamedUnit>& units, const torch::Device& device) {
  std::unordered_set<const at::TensorImpl*> seen;
  for (const NamedUnit& unit : units) {
    for (const auto& [name, tensor] : unit.parameters) {
      check_parameter(name, tensor, device);
      FSDP_CHECK_UNIT(seen.insert(tensor.unsafeGetTensorImpl()).second, unit.name,
                      "shard: the parameter {} is in two units, expected in one", name);
    }
  }
}

// Layers that the user placed by hand: one rank's shards lie on one device.
void check_one_device(const std::vector<NamedUnit>& units, const torch::Device& device) {
  const NamedTensors::value_type* first = nullptr;
  for (const NamedUnit& unit : units) {
    for (const auto& parameter : unit.parameters) {
      if (parameter.second.is_meta()) continue;  // refused for another reason
      if (first == nullptr) first = &parameter;
      FSDP_CHECK(parameter.second.device() == first->second.device(),
                 "shard: the parameter {} is on {}, but {} is on {}, expected all on one device, {} of this rank. For "
                 "layers on several devices, use fsdp::Pipeline with one rank for each device. If the model fits on "
                 "one device, move it there before shard: module->to(world.device()).",
                 first->first, first->second.device().str(), parameter.first, parameter.second.device().str(),
                 device.str());
    }
  }
}

// For deferred modules: everything except the units' parameters. Returns whether some of those are deferred.
bool make_rest_real(const std::vector<NamedUnit>& units, const NamedTensors& ignored) {
  std::vector<torch::Tensor> parameters, buffers, left_alone;
  for (const NamedUnit& unit : units) {
    for (const auto& [name, tensor] : unit.parameters) parameters.push_back(tensor);
    for (const auto& [name, tensor] : unit.buffers) buffers.push_back(tensor);
  }
  for (const auto& [name, tensor] : ignored) left_alone.push_back(tensor);
  const bool any = std::ranges::any_of(parameters, is_deferred);
  if (any) deferred::check_not_drawn();
  deferred::make_real(left_alone);
  deferred::make_real_beside(parameters, buffers);
  return any;
}

std::shared_ptr<engine::Model> make_model(const MakeGroup& make_group, ModuleDivision division,
                                          const BudgetedModules& budgeted, World& world, const Options& options,
                                          const Sharding& sharding, engine::WholeModel whole) {
  const MixedPrecision& precision = options.mixed_precision;
  const Backings backings = backings_of(options, world);
  const bool offloaded = is_offloaded_to_cpu(options, world);
  return engine::Model::make(
      engine::ModelSpec{.units = divide_by_dtype(std::move(division.units), precision),
                        .group = offloaded ? make_offloaded_group(world, backings) : make_group(),
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
                        .statistics = std::move(division.statistics),
                        .broadcast_buffers = options.broadcast_buffers,
                        .activation_memory = options.activation_memory,
                        .recomputed_blocks = block_names(budgeted),
                        .check_common_every = options.check_common_every,
                        .whole = std::move(whole)});
}

// Before a call of the world the rank publishes its optimizer's writes, so that their readers do not wait for it. The
// model's group notes the call, so that messages can name it.
void watch_calls(World& world, const std::shared_ptr<engine::Model>& model) {
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
}

ShardedModel shard_units(const MakeGroup& make_group, ModuleDivision division, const BudgetedModules& budgeted,
                         World& world, const Options& options, engine::WholeModel whole = {}) {
  whole.ranks = world.state()->world_ranks();
  std::vector<NamedUnit>& units = division.units;
  check_options(options);
  const Sharding sharding = sharding_of(options, world);
  check_one_device(units, world.device());
  check_parameters(units, world.device());
  check_memory(units, division.ignored);
  if (world.rank() == 0) warn_of_aliases(units, division.ignored);
  const bool any_deferred = make_rest_real(units, division.ignored);
  drop_empty(units);
  convert_buffers(units, options.mixed_precision);
  auto model = make_model(make_group, std::move(division), budgeted, world, options, sharding, std::move(whole));
  give_budgets(budgeted, model->recomputed_blocks());
  if (any_deferred && options.initialise) deferred::settle_draws();
  watch_calls(world, model);
  return ShardedModel(std::move(model));
}

// Each rank of a tensor axis holds another part, so they are no replicas and share nothing.
void check_other_ranks(const std::vector<World>& tensor_worlds, const World& world) {
  const std::vector<int> ranks = job_ranks(world);
  for (const World& axis : tensor_worlds) {
    const std::vector<int> theirs = job_ranks(axis);
    const auto common = std::ranges::count_if(theirs, [&](int rank) { return std::ranges::count(ranks, rank) > 0; });
    FSDP_CHECK(common <= 1,
               "shard: layers of the module are divided over ranks {}, and the world to shard over has ranks {}, "
               "expected this rank alone in both. Shard over another axis of a mesh, for example fsdp::Mesh "
               "mesh(world, {{{{\"data\", {}}}, {{\"tensor\", {}}}}}) and shard(module, mesh, \"data\").",
               fmt::join(theirs, ", "), fmt::join(ranks, ", "), std::max<size_t>(1, ranks.size() / theirs.size()),
               theirs.size());
  }
}

void add_axes(engine::Model& model, const std::vector<World>& tensor_worlds, const torch::nn::Module& module) {
  std::vector<std::shared_ptr<engine::DividingAxis>> axes;
  for (const World& axis : tensor_worlds) {
    auto parts = std::make_shared<TensorAxis>(axis, module);
    check_whole_values(model, *parts);
    axes.push_back(std::move(parts));
  }
  model.set_axes(std::move(axes));
}

MakeGroup of_its_own(World& world) {
  return [&world] { return world.state()->new_group(); };
}

}  // namespace

// NOLINTNEXTLINE(performance-unnecessary-value-param): the signature is public
ShardedModel shard(std::vector<NamedUnit> units, World& world, Options options) {
  FSDP_CHECK(options.ignored.empty(),
             "shard: options.ignored is for tensors of a module, found units made by hand. Leave the tensors out of "
             "the units.");
  check_no_budget(options);
  check_given(units);
  return shard_units(of_its_own(world), {.units = std::move(units)}, {}, world, options);
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): the signature is public
ShardedModel shard(torch::nn::Module& module, World& world, Options options) {
  return shard_over(of_its_own(world), module, world, options);
}

ShardedModel shard_over(const MakeGroup& make_group, torch::nn::Module& module, World& world, const Options& options) {
  const std::vector<World> tensor_worlds = tensor_worlds_of(module);
  check_other_ranks(tensor_worlds, world);
  const BudgetedModules budgeted = budgeted_modules(module, options);
  ModuleDivision division = divide(module, options);
  if (world.rank() == 0) warn_of_large_units(division);
  engine::WholeModel whole = whole_model_of(module, division.units);
  ShardedModel sharded = shard_units(make_group, std::move(division), budgeted, world, options, std::move(whole));
  add_axes(sharded.model(), tensor_worlds, module);
  return sharded;
}

}  // namespace fsdp
