#include "api/module_tree.h"

#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/container/sequential.h>

#include <map>
#include <tuple>
#include <typeindex>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "base/names.h"

namespace fsdp {

namespace {

using Module = torch::nn::Module;

int64_t numel_below(const Module& module) {
  int64_t numel = 0;
  for (const auto& parameter : module.parameters()) numel += parameter.numel();
  return numel;
}

// The views of scripted modules are of one type, and have the names of their classes.
bool are_alike(const Module& a, const Module& b) { return typeid(a) == typeid(b) && a.name() == b.name(); }

using Kind = std::tuple<std::type_index, std::string, int64_t>;  // equal for modules of one type and size

Kind kind_of(const Module& module) { return {typeid(module), module.name(), numel_below(module)}; }

std::map<Kind, int> count_kinds(const Module& container) {
  std::map<Kind, int> kinds;
  for (const auto& child : container.children()) ++kinds[kind_of(*child)];
  return kinds;
}

// A ModuleList or Sequential of two or more modules of one type, or a ModuleList of modules that are made of modules
// (dense blocks and mixtures of experts in turn). Each has parameters.
bool is_container_of_blocks(const Module& module) {
  const bool list = dynamic_cast<const torch::nn::ModuleListImpl*>(&module) != nullptr;
  if (!list && dynamic_cast<const torch::nn::SequentialImpl*>(&module) == nullptr) return false;
  const auto children = module.children();
  bool alike = children.size() >= 2, composed = list && !children.empty();
  for (const auto& child : children) {
    if (numel_below(*child) == 0) return false;
    alike = alike && are_alike(*child, *children[0]);
    composed = composed && !child->children().empty();
  }
  return alike || composed;
}

// Walks a module once; knows which parameters it has met.
class TreeMaker {
 public:
  TreeMaker(const Module& root, const std::vector<std::string>& ignored, const std::vector<std::string>& order)
      : ignored_(ignored) {
    if (order.empty()) return;
    const auto parameters = root.named_parameters();
    for (const std::string& name : order) {
      const torch::Tensor* parameter = parameters.find(name);
      FSDP_CHECK(parameter != nullptr,
                 "units_automatic: the model has no parameter {}, which is in the order of use. Names are as in "
                 "named_parameters.",
                 name);
      uses_.emplace(parameter->unsafeGetTensorImpl(), uses_.size() + 1);
    }
  }

  ModuleNode node_of(const Module& module, const std::string& prefix) {
    ModuleNode node{.name = prefix.empty() ? "" : prefix.substr(0, prefix.size() - 1)};
    for (const auto& parameter : module.named_parameters(/*recurse=*/false)) {
      add(parameter.value(), prefix + parameter.key(), node);
      node.is_recurrent = node.is_recurrent || parameter.key() == plan::kRecurrentWeight;
    }
    const bool blocks = is_container_of_blocks(module);
    const std::map<Kind, int> kinds = blocks ? count_kinds(module) : std::map<Kind, int>();
    for (const auto& child : module.named_children()) {
      node.children.push_back(node_of(*child.value(), prefix + child.key() + "."));
      ModuleNode& below = node.children.back();
      below.is_block = blocks;
      below.has_equal = blocks && kinds.at(kind_of(*child.value())) > 1;
      node.numel += below.numel;
    }
    return node;
  }

 private:
  void add(const torch::Tensor& parameter, const std::string& name, ModuleNode& node) {
    if (!parameter.defined() || !seen_.insert(parameter.unsafeGetTensorImpl()).second) return;
    if (matches_any(ignored_, name)) return;
    const auto use = uses_.find(parameter.unsafeGetTensorImpl());
    if (use != uses_.end()) last_use_ = use->second;
    node.own.push_back({name, parameter.numel(), last_use_});
    node.numel += parameter.numel();
  }

  const std::vector<std::string>& ignored_;
  std::unordered_map<const at::TensorImpl*, size_t> uses_;
  std::unordered_set<const at::TensorImpl*> seen_;
  size_t last_use_ = 0;
};

}  // namespace

ModuleNode tree_of(const Module& root, const std::vector<std::string>& ignored, const std::vector<std::string>& order) {
  return TreeMaker(root, ignored, order).node_of(root, "");
}

}  // namespace fsdp
