#include "api/found_units.h"

#include <algorithm>
#include <map>
#include <string>

#include "base/error.h"

namespace fsdp {

namespace {

constexpr size_t kMostClasses = 8;  // that a message names

void check_names_of(const std::vector<UnitMembers>& units) {
  std::map<std::string, const UnitMembers*> named;
  for (const UnitMembers& unit : units) {
    if (unit.members.empty()) continue;  // the rest: it has its name by itself
    const auto [same, fresh] = named.emplace(unit.name, &unit);
    FSDP_CHECK(fresh || same->second->members == unit.members,
               "shard: options.units makes two units named {}, expected a name for each.", unit.name);
  }
}

// Returns whether the unit is the whole module or holds a parameter of it.
bool is_found(const UnitMembers& unit, const std::vector<std::string>& parameters) {
  const auto holds = [&](const std::string& member) {
    return member.empty() || std::ranges::any_of(parameters, [&](const std::string& name) {
             return name == member || name.starts_with(member + ".");
           });
  };
  return unit.members.empty() || std::ranges::any_of(unit.members, holds);
}

// Adds the class of each module that has parameters, once.
void add_classes(const torch::nn::Module& module, std::vector<std::string>& classes) {
  for (const auto& child : module.children()) {
    if (child->parameters().empty()) continue;
    if (std::ranges::find(classes, child->name()) == classes.end()) classes.push_back(child->name());
    add_classes(*child, classes);
  }
}

std::string classes_in(const torch::nn::Module& module) {
  std::vector<std::string> classes;
  add_classes(module, classes);
  if (classes.empty()) return "no other modules";
  const size_t rest = classes.size() - std::min(classes.size(), kMostClasses);
  classes.resize(classes.size() - rest);
  return fmt::format("modules of {}{}", fmt::join(classes, ", "), rest > 0 ? fmt::format(" and {} more", rest) : "");
}

}  // namespace

void check_found(const torch::nn::Module& module, const std::vector<UnitMembers>& units) {
  const std::vector<std::string> parameters = module.named_parameters().keys();
  const auto found = [&](const UnitMembers& unit) { return is_found(unit, parameters); };
  FSDP_CHECK(parameters.empty() || std::ranges::any_of(units, found),
             "shard: options.units found no unit in {}, which has {}: it chose {}, so all parameters would be gathered "
             "at once. Choose modules that are there, or leave options.units out. To make the whole model one unit, "
             "set options.units to fsdp::one_unit().",
             module.name(), classes_in(module), units.empty() ? "none" : "none that has parameters");
  check_names_of(units);
}

}  // namespace fsdp
