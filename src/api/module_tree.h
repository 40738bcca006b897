// A module and what lies below it, with sizes: what automatic units are cut from.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <string>
#include <vector>

namespace fsdp {

struct ParameterSize {
  std::string name = {};  // as in named_parameters
  int64_t numel = 0;
  size_t use = 0;  // its place in the order in which parameters are used
};

// In the order of registration, which is that of named_parameters: a module's own parameters, then its children.
struct ModuleNode {
  std::string name;  // as in named_modules; empty for the root
  std::vector<ParameterSize> own = {};
  std::vector<ModuleNode> children = {};
  int64_t numel = 0;          // of all parameters here and below
  bool is_block = false;      // a child of a container of blocks
  bool has_equal = false;     // such a one, with a sibling of the same type and size
  bool is_recurrent = false;  // one operator takes all of its own parameters
};

// Counts a tied parameter where it comes first, and leaves out those whose first names match one of `ignored`. `order`
// has names of parameters, each a place before the next; one that it leaves out has that of the one before it. Throws
// Error for a name in `order` that the module does not have.
ModuleNode tree_of(const torch::nn::Module& root, const std::vector<std::string>& ignored,
                   const std::vector<std::string>& order);

}  // namespace fsdp
