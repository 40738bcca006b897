// Modules by the names of parameters.
#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/checked.h"
#include "base/error.h"
#include "plan/module_tree.h"

namespace fsdp::plan {

namespace {

// A parameter below a module: its name from there on, and its number of dimensions.
using Form = std::set<std::pair<std::string, size_t>>;

// A module while parameters are added to it.
struct Growing {
  ModuleNode node;
  Form form;  // of all parameters here and below
  std::vector<Growing> children;
  std::unordered_map<std::string, size_t> numbers = {};  // of the children, by their own names
};

void add(Growing& module, const NamedShape& parameter, size_t begin, const ParameterSize& size) {
  module.node.numel = checked_add(module.node.numel, size.numel);
  const std::string rest = parameter.name.substr(begin);
  module.form.emplace(rest, parameter.shape.size());
  const size_t dot = rest.find('.');
  if (dot == std::string::npos) {
    module.node.own.push_back(size);
    module.node.is_recurrent = module.node.is_recurrent || rest == kRecurrentWeight;
    return;
  }
  const auto [place, is_new] = module.numbers.emplace(rest.substr(0, dot), module.children.size());
  if (is_new)
    module.children.push_back({.node = {.name = parameter.name.substr(0, begin + dot)}, .form = {}, .children = {}});
  add(module.children[place->second], parameter, begin + dot + 1, size);
}

// Its children are called 0, 1, 2 and so on, and it has no parameters of its own.
bool is_numbered(const Growing& module) {
  if (!module.node.own.empty() || module.children.empty()) return false;
  for (size_t i = 0; i < module.children.size(); ++i) {
    if (!module.numbers.contains(std::to_string(i)) || module.children[i].node.numel == 0) return false;
  }
  return true;
}

bool has_blocks(const Growing& module) {
  const std::vector<Growing>& children = module.children;
  if (!is_numbered(module)) return false;
  const bool are_alike = children.size() >= 2 && std::ranges::all_of(children, [&](const Growing& child) {
                           return child.form == children.front().form;
                         });
  return are_alike || std::ranges::all_of(children, [](const Growing& child) { return !child.children.empty(); });
}

ModuleNode finished(Growing module) {
  const bool blocks = has_blocks(module);
  std::map<std::pair<Form, int64_t>, int> kinds;
  if (blocks) {
    for (const Growing& child : module.children) ++kinds[{child.form, child.node.numel}];
  }
  for (Growing& child : module.children) {
    const bool has_equal = blocks && kinds.at({child.form, child.node.numel}) > 1;
    module.node.children.push_back(finished(std::move(child)));
    module.node.children.back().is_block = blocks;
    module.node.children.back().has_equal = has_equal;
  }
  return std::move(module.node);
}

int64_t numel_of(const NamedShape& parameter) {
  int64_t numel = 1;
  for (const int64_t size : parameter.shape) numel = checked_mul(numel, size);
  return numel;
}

}  // namespace

ModuleNode tree_of_names(const std::vector<NamedShape>& parameters) {
  Growing root;
  for (const NamedShape& parameter : parameters) {
    const auto depth = static_cast<size_t>(std::ranges::count(parameter.name, '.'));
    FSDP_CHECK(depth <= kDeepestName, "plan: found a parameter in {} modules, expected at most {}.", depth,
               kDeepestName);
    add(root, parameter, 0, {.name = parameter.name, .numel = numel_of(parameter)});
  }
  return finished(std::move(root));
}

}  // namespace fsdp::plan
