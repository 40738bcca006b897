#include "api/module_division.h"

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/instancenorm.h>

#include <algorithm>
#include <typeinfo>
#include <unordered_map>
#include <unordered_set>

#include "api/found_units.h"
#include "base/error.h"
#include "base/names.h"
#include "files/wrapped.h"
#include "fsdp/sync_batch_norm.h"
#include "plan/automatic_units.h"

namespace fsdp {

namespace {

constexpr double kNearlyAll = 0.9;            // of the parameters: an undivided model
constexpr int64_t kLeastDividedNumel = 8192;  // a smaller unit is not worth cutting

using TensorsByName = torch::OrderedDict<std::string, torch::Tensor>;

// Which tensors options.ignored leaves alone: a tensor of several names by its first.
class Ignored {
 public:
  Ignored(const TensorsByName& parameters, const TensorsByName& buffers, const std::vector<std::string>& patterns) {
    for (const TensorsByName* tensors : {&parameters, &buffers}) {
      for (const auto& tensor : *tensors) add(tensor.key(), tensor.value(), patterns);
    }
    for (const std::string& pattern : patterns) {
      FSDP_CHECK(std::ranges::any_of(tensors_, [&](const auto& one) { return matches(pattern, one.first); }),
                 "shard: the pattern '{}' in options.ignored matches no parameter or buffer. Names are as in "
                 "named_parameters and named_buffers. For tied ones the first name counts.",
                 pattern);
    }
  }

  bool contains(const torch::Tensor& tensor) const { return impls_.contains(tensor.unsafeGetTensorImpl()); }
  const NamedTensors& tensors() const { return tensors_; }

 private:
  void add(const std::string& name, const torch::Tensor& tensor, const std::vector<std::string>& patterns) {
    if (!seen_.insert(tensor.unsafeGetTensorImpl()).second || !matches_any(patterns, name)) return;
    impls_.insert(tensor.unsafeGetTensorImpl());
    tensors_.emplace_back(name, tensor);
  }

  std::unordered_set<const at::TensorImpl*> seen_, impls_;
  NamedTensors tensors_;
};

// A batch or instance norm of LibTorch's, or the view of a scripted one: it writes its statistics in training, and
// reads them in evaluation.
bool keeps_statistics(const torch::nn::Module& module) {
  using namespace torch::nn;
  const auto is_any = [&]<typename... Norms>() { return ((dynamic_cast<const Norms*>(&module) != nullptr) || ...); };
  if (is_any.operator()<BatchNorm1dImpl, BatchNorm2dImpl, BatchNorm3dImpl, InstanceNorm1dImpl, InstanceNorm2dImpl,
                        InstanceNorm3dImpl, fsdp::SyncBatchNormImpl>()) {
    return true;
  }
  const std::string& name = module.name();
  return typeid(module) == typeid(Module) && (name.starts_with("BatchNorm") || name.starts_with("InstanceNorm"));
}

void add_statistics(const torch::nn::Module& module, const std::string& prefix,
                    std::unordered_set<std::string>& names) {
  if (keeps_statistics(module)) {
    for (const auto& buffer : module.named_buffers(/*recurse=*/false)) names.insert(prefix + buffer.key());
  }
  for (const auto& child : module.named_children()) add_statistics(*child.value(), prefix + child.key() + ".", names);
}

int64_t numel_of(const NamedUnit& unit) {
  int64_t numel = 0;
  for (const auto& [name, parameter] : unit.parameters) numel += parameter.numel();
  return numel;
}

int64_t numel_of(const std::vector<NamedUnit>& units) {
  int64_t numel = 0;
  for (const NamedUnit& unit : units) numel += numel_of(unit);
  return numel;
}

// Returns whether the policy says that what lies in no other unit, or the whole, is a unit.
bool asks_for_the_rest(const std::vector<UnitMembers>& chosen) {
  return std::ranges::any_of(chosen, [](const UnitMembers& unit) {
    return unit.members.empty() || std::ranges::find(unit.members, "") != unit.members.end();
  });
}

// Elements of the module with most parameters of its own.
int64_t largest_module(const NamedUnit& unit) {
  std::unordered_map<std::string, int64_t> numels;
  int64_t largest = 0;
  for (const auto& [name, parameter] : unit.parameters) {
    const size_t dot = name.rfind('.');
    const int64_t numel = numels[name.substr(0, dot == std::string::npos ? 0 : dot)] += parameter.numel();
    largest = std::max(largest, numel);
  }
  return largest;
}

std::string undivided_unit(const std::vector<NamedUnit>& units) {
  const double nearly_all = kNearlyAll * static_cast<double>(numel_of(units));
  for (const NamedUnit& unit : units) {
    const int64_t numel = numel_of(unit);
    const bool can_be_divided = numel >= kLeastDividedNumel && largest_module(unit) <= numel / 2;
    if (can_be_divided && static_cast<double>(numel) >= nearly_all) return unit.name;
  }
  return "";
}

std::string share_of(const std::string& name, const std::vector<NamedUnit>& units) {
  const auto unit = std::ranges::find(units, name, &NamedUnit::name);
  const int64_t numel = unit == units.end() ? 0 : numel_of(*unit);
  return fmt::format("{:.0f} %", 100.0 * static_cast<double>(numel) / static_cast<double>(numel_of(units)));
}

void warn_of_undivided(const ModuleDivision& division) {
  if (division.undivided.empty()) return;
  files::show_error(
      fmt::format("{}warning: shard: options.units puts {} of the parameters into one unit, {}. A unit is gathered as "
                  "a whole, so each rank needs memory for nearly the whole model.\n"
                  "Choose smaller modules, such as the model's blocks, or leave options.units out. If one unit is "
                  "meant, set options.units to fsdp::one_unit().\n",
                  message_prefix(), share_of(division.undivided, division.units), division.undivided));
}

}  // namespace

ModuleDivision divide(const torch::nn::Module& module, const Options& options) {
  const TensorsByName parameters = module.named_parameters(), buffers = module.named_buffers();
  const Ignored ignored(parameters, buffers, options.ignored);
  ModuleDivision division{.units = {{plan::kRestOfUnits, {}, {}}}, .ignored = ignored.tensors()};
  plan::UnitOfMember unit_of_member;
  const std::vector<UnitMembers> chosen = options.units.divide(module, options.ignored);
  check_found(module, chosen);
  for (const UnitMembers& unit : chosen) {
    if (!unit.why_large.empty()) division.large.emplace_back(unit.name, unit.why_large);
    if (unit.members.empty()) continue;
    for (const std::string& member : unit.members) unit_of_member.emplace(member, division.units.size());
    division.units.push_back({unit.name, {}, {}});
  }
  const auto place = [&](const std::string& name) -> NamedUnit& {
    return division.units[plan::unit_of(name, unit_of_member)];
  };
  std::unordered_set<const at::TensorImpl*> seen;
  for (const auto& parameter : parameters) {
    if (!parameter.value().defined() || ignored.contains(parameter.value())) continue;
    if (!seen.insert(parameter.value().unsafeGetTensorImpl()).second) continue;
    place(parameter.key()).parameters.emplace_back(parameter.key(), parameter.value());
  }
  for (const auto& buffer : buffers) {
    if (!buffer.value().defined() || ignored.contains(buffer.value())) continue;
    place(buffer.key()).buffers.emplace_back(buffer.key(), buffer.value());
  }
  if (!asks_for_the_rest(chosen)) division.undivided = undivided_unit(division.units);
  add_statistics(module, "", division.statistics);
  return division;
}

void drop_empty(std::vector<NamedUnit>& units) {
  std::vector<std::pair<std::string, torch::Tensor>> buffers;
  std::erase_if(units, [&](NamedUnit& unit) {
    if (!unit.parameters.empty()) return false;
    buffers.insert(buffers.end(), unit.buffers.begin(), unit.buffers.end());
    return true;
  });
  if (!units.empty()) units[0].buffers.insert(units[0].buffers.end(), buffers.begin(), buffers.end());
}

void warn_of_large_units(const ModuleDivision& division) {
  warn_of_undivided(division);
  if (division.large.empty()) return;
  std::string units;
  for (const auto& [name, why] : division.large) {
    units += fmt::format("{}{} holds {} of the parameters ({})", units.empty() ? "" : "; ", name,
                         share_of(name, division.units), why);
  }
  files::show_error(
      fmt::format("{}warning: shard: units larger than the policy promises: {}. A unit is gathered as a whole, so "
                  "each rank needs memory for it (docs/memory.md). Smaller layers would make smaller units; "
                  "options.units chooses units by hand.\n",
                  message_prefix(), units));
}

}  // namespace fsdp
