// From a module and options to a sharded model.
#include <ATen/MemoryOverlap.h>

#include <algorithm>
#include <span>
#include <unordered_map>
#include <unordered_set>

#include "api/precision.h"
#include "api/strategy.h"
#include "base/error.h"
#include "base/names.h"
#include "engine/model.h"
#include "fsdp/sharded_model.h"
#include "interpose/unit_storage.h"
#include "world/state.h"

namespace fsdp {

namespace {

constexpr const char* kRest = "root";  // the unit of what lies outside of every chosen module

void check_options(const Options& options) {
  check_precision(options.mixed_precision);
  FSDP_CHECK(!options.cpu_offload, "shard: this version has no cpu_offload; leave it off");
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

// The innermost unit that `name` lies in; the first one is the rest.
NamedUnit& unit_of(const std::string& name, std::vector<NamedUnit>& units) {
  NamedUnit* best = nullptr;
  for (NamedUnit& unit : std::span(units).subspan(1)) {
    const bool inside = name.starts_with(unit.name + ".");
    if (inside && (best == nullptr || unit.name.size() > best->name.size())) best = &unit;
  }
  return best == nullptr ? units[0] : *best;
}

void check_patterns(const torch::nn::Module& module, const std::vector<std::string>& patterns) {
  auto names = module.named_parameters().keys();
  const auto buffers = module.named_buffers().keys();
  names.insert(names.end(), buffers.begin(), buffers.end());
  for (const std::string& pattern : patterns) {
    FSDP_CHECK(std::any_of(names.begin(), names.end(), [&](const auto& name) { return matches(pattern, name); }),
               "shard: the pattern '{}' in options.ignored matches no parameter or buffer", pattern);
  }
}

// Units in the order in which the module registers them, the rest first; a tied parameter goes where it comes first.
std::vector<NamedUnit> divide(const torch::nn::Module& module, const Options& options) {
  check_patterns(module, options.ignored);
  std::vector<NamedUnit> units{{kRest, {}, {}}};
  for (const std::string& name : options.units.choose(module)) units.push_back({name, {}, {}});

  std::unordered_set<const at::TensorImpl*> seen;
  for (const auto& parameter : module.named_parameters()) {
    if (!parameter.value().defined() || matches_any(options.ignored, parameter.key())) continue;
    if (!seen.insert(parameter.value().unsafeGetTensorImpl()).second) continue;
    unit_of(parameter.key(), units).parameters.emplace_back(parameter.key(), parameter.value());
  }
  for (const auto& buffer : module.named_buffers()) {
    if (!buffer.value().defined() || matches_any(options.ignored, buffer.key())) continue;
    unit_of(buffer.key(), units).buffers.emplace_back(buffer.key(), buffer.value());
  }
  return units;
}

// What a unit without parameters has is the rest's.
void drop_empty(std::vector<NamedUnit>& units) {
  std::vector<std::pair<std::string, torch::Tensor>> buffers;
  std::erase_if(units, [&](NamedUnit& unit) {
    if (!unit.parameters.empty()) return false;
    buffers.insert(buffers.end(), unit.buffers.begin(), unit.buffers.end());
    return true;
  });
  if (!units.empty()) units[0].buffers.insert(units[0].buffers.end(), buffers.begin(), buffers.end());
}

}  // namespace

ShardedModel shard(std::vector<NamedUnit> units, World& world, Options options) {
  check_options(options);
  FSDP_CHECK(options.ignored.empty(),
             "shard: options.ignored chooses among the tensors of a module, and these units are given by hand. Leave "
             "them out of the units.");
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
  auto model = std::make_shared<engine::Model>(engine::ModelSpec{.units = divide_by_dtype(std::move(units), precision),
                                                                 .group = world.state()->new_group(),
                                                                 .device = world.device(),
                                                                 .strategy = options.strategy,
                                                                 .shards = sharding.shards,
                                                                 .full_until = sharding.full_until,
                                                                 .buffers = options.buffers,
                                                                 .prefetch = options.prefetch,
                                                                 .full_on_each_host = options.full_on_each_host,
                                                                 .reduce_dtype = precision.reduce_dtype,
                                                                 .casts_activations = precision.param_dtype.has_value(),
                                                                 .sync_module_states = options.sync_module_states});
  // A rank that waits in a call of the world's keeps nobody waiting for what its optimizer wrote.
  world.state()->before_calls([observer = std::weak_ptr(model)] {
    const auto alive = observer.lock();
    if (alive) alive->publish_pieces();
    return alive != nullptr;
  });
  return ShardedModel(std::move(model));
}

ShardedModel shard(torch::nn::Module& module, World& world, Options options) {
  std::vector<NamedUnit> units = divide(module, options);
  options.ignored.clear();  // done
  return shard(std::move(units), world, std::move(options));
}

}  // namespace fsdp
