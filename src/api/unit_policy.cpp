// Unit policies, and those that look at each module by itself.
#include <utility>

#include "base/error.h"
#include "fsdp/options.h"

namespace fsdp {

namespace {

using Module = torch::nn::Module;
using Visit = std::function<bool(const std::string& name, const Module& module)>;  // whether to go on inside

// The modules below `module`, parents first. Works on modules that no shared pointer holds.
void visit_below(const Module& module, const std::string& prefix, const Visit& visit) {
  for (const auto& child : module.named_children()) {
    const std::string name = prefix + child.key();
    if (visit(name, *child.value())) visit_below(*child.value(), name + ".", visit);
  }
}

int64_t numel_of(const Module& module) {
  int64_t numel = 0;
  for (const auto& parameter : module.parameters()) numel += parameter.numel();
  return numel;
}

}  // namespace

UnitPolicy::UnitPolicy(Choose choose)
    : divide_([choose = std::move(choose)](const Module& root, const std::vector<std::string>&) {
        std::vector<UnitMembers> units;
        for (const std::string& name : choose(root)) units.push_back({.name = name, .members = {name}});
        return units;
      }) {}

std::vector<std::string> UnitPolicy::choose(const Module& root) const {
  std::vector<std::string> names;
  for (const UnitMembers& unit : divide(root)) names.insert(names.end(), unit.members.begin(), unit.members.end());
  return names;
}

UnitPolicy units_by(std::function<bool(const std::string&, const torch::nn::Module&)> is_unit) {
  return UnitPolicy([is_unit = std::move(is_unit)](const Module& root) {
    std::vector<std::string> names;
    visit_below(root, "", [&](const std::string& name, const Module& module) {
      if (is_unit(name, module)) names.push_back(name);
      return true;
    });
    return names;
  });
}

UnitPolicy units_by_size(int64_t numel) {
  FSDP_CHECK(numel > 0, "units_by_size: found {}, expected a positive number of elements", numel);
  return UnitPolicy([numel](const Module& root) {
    std::vector<std::string> names;
    visit_below(root, "", [&](const std::string& name, const Module& module) {
      if (numel_of(module) < numel) return false;
      for (const auto& child : module.children()) {
        if (numel_of(*child) >= numel) return true;
      }
      names.push_back(name);
      return false;
    });
    return names;
  });
}

}  // namespace fsdp
