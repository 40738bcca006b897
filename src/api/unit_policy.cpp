// The policies that divide a module into units.
#include <typeinfo>

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

// A ModuleList or Sequential of two or more modules of one type, or a ModuleList of modules that are made of modules
// (dense blocks and mixtures of experts in turn). Each has parameters.
bool is_container_of_blocks(const Module& module) {
  const bool list = dynamic_cast<const torch::nn::ModuleListImpl*>(&module) != nullptr;
  if (!list && dynamic_cast<const torch::nn::SequentialImpl*>(&module) == nullptr) return false;
  const auto children = module.children();
  bool alike = children.size() >= 2, composed = list && !children.empty();
  for (const auto& child : children) {
    const Module &one = *child, &first = *children[0];
    if (numel_of(one) == 0) return false;
    // The views of scripted modules are of one type, and have the names of their classes.
    alike = alike && typeid(one) == typeid(first) && one.name() == first.name();
    composed = composed && !one.children().empty();
  }
  return alike || composed;
}

}  // namespace

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

UnitPolicy units_automatic() {
  return UnitPolicy([](const Module& root) {
    std::vector<std::string> names;
    auto add_children = [&](const std::string& prefix, const Module& container) {
      for (const auto& child : container.named_children()) names.push_back(prefix + child.key());
    };
    if (is_container_of_blocks(root)) {
      add_children("", root);
      return names;
    }
    visit_below(root, "", [&](const std::string& name, const Module& module) {
      if (!is_container_of_blocks(module)) return true;
      add_children(name + ".", module);
      return false;
    });
    return names;
  });
}

}  // namespace fsdp
