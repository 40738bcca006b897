// Unit policies, and policies that look at each module by itself.
#include <utility>

#include "api/module_division.h"
#include "base/error.h"
#include "fsdp/options.h"
#include "plan/automatic_units.h"

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

template <typename Function>
Function checked(Function function, const char* where) {
  FSDP_CHECK(function != nullptr, "{}: found an empty function, expected one that chooses units", where);
  return function;
}

std::vector<UnitMembers> units_named(const std::vector<std::string>& names) {
  std::vector<UnitMembers> units;
  for (const std::string& name : names) units.push_back({.name = name, .members = {name}});
  return units;
}

std::vector<UnitMembers> the_whole() { return {{.name = plan::kRestOfUnits, .members = {}}}; }

std::vector<std::string> modules_for(const Module& root, const Visit& is_unit) {
  std::vector<std::string> names;
  visit_below(root, "", [&](const std::string& name, const Module& module) {
    if (is_unit(name, module)) names.push_back(name);
    return true;
  });
  return names;
}

}  // namespace

UnitPolicy::UnitPolicy(Choose choose)
    : divide_([choose = checked(std::move(choose), "UnitPolicy")](const Module& root, const std::vector<std::string>&) {
        return units_named(choose(root));
      }) {}

UnitPolicy::UnitPolicy(Divide divide) : divide_(checked(std::move(divide), "UnitPolicy")) {}

std::vector<UnitMembers> UnitPolicy::divide(const Module& root, const std::vector<std::string>& ignored) const {
  return divide_.get()(root, ignored);
}

std::vector<std::string> UnitPolicy::choose(const Module& root) const {
  std::vector<std::string> names;
  for (const UnitMembers& unit : divide(root)) names.insert(names.end(), unit.members.begin(), unit.members.end());
  return names;
}

UnitPolicy one_unit() {
  return UnitPolicy([](const Module&, const std::vector<std::string>&) { return the_whole(); });
}

UnitPolicy units_by(std::function<bool(const std::string&, const torch::nn::Module&)> is_unit) {
  return UnitPolicy(
      [is_unit = checked(std::move(is_unit), "units_by")](const Module& root) { return modules_for(root, is_unit); });
}

UnitPolicy detail::units_of_types(bool (*is_unit)(const torch::nn::Module& module)) {
  return UnitPolicy([is_unit](const Module& root, const std::vector<std::string>&) {
    const auto names = modules_for(root, [&](const std::string&, const Module& module) { return is_unit(module); });
    return names.empty() && is_unit(root) ? the_whole() : units_named(names);
  });
}

UnitPolicy units_by_size(int64_t numel) {
  FSDP_CHECK(numel > 0, "units_by_size: found {}, expected a positive number of elements", numel);
  return UnitPolicy([numel](const Module& root, const std::vector<std::string>&) {
    std::vector<std::string> names;
    visit_below(root, "", [&](const std::string& name, const Module& module) {
      if (numel_of(module) < numel) return false;
      for (const auto& child : module.children()) {
        if (numel_of(*child) >= numel) return true;
      }
      names.push_back(name);
      return false;
    });
    return names.empty() ? the_whole() : units_named(names);
  });
}

}  // namespace fsdp
