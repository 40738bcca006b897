// A module and what lies below it, with sizes: what automatic units are cut from. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace fsdp::plan {

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

// The own parameter by which a recurrent module is known, as every one of LibTorch's has it.
inline constexpr const char* kRecurrentWeight = "weight_ih_l0";

// A parameter of a list.
struct NamedShape {
  std::string name;  // as in named_parameters
  std::vector<int64_t> shape;
};

// The tree of the modules that the names tell of. Their types are not known. So a container of blocks is a module whose
// children are called 0, 1, 2 and so on and have parameters of the same names and numbers of dimensions, or are all
// made of modules. Throws Error for a name of more than kDeepestName modules, and for more elements than 64 bits count.
ModuleNode tree_of_names(const std::vector<NamedShape>& parameters);
inline constexpr size_t kDeepestName = 100;

}  // namespace fsdp::plan
