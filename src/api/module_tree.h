// The tree of a module (plan/module_tree.h).
#pragma once

#include <torch/nn/module.h>

#include <string>
#include <vector>

#include "plan/module_tree.h"

namespace fsdp {

using plan::ModuleNode;

// Counts a tied parameter where it comes first, and leaves out those whose first names match one of `ignored`. `order`
// has names of parameters, each a place before the next; one that it leaves out has that of the one before it. Throws
// Error for a name in `order` that the module does not have.
ModuleNode tree_of(const torch::nn::Module& root, const std::vector<std::string>& ignored,
                   const std::vector<std::string>& order);

}  // namespace fsdp
