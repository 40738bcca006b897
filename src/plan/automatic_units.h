// Units for any model, by the names and sizes of its parameters: the arithmetic of fsdp::units_automatic. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <unordered_map>
#include <vector>

#include "plan/module_tree.h"

namespace fsdp::plan {

inline constexpr const char* kRestOfUnits = "root";  // the unit of what no other one has

// As fsdp::UnitMembers.
struct AutomaticUnit {
  std::string name;
  std::vector<std::string> members = {};  // modules and parameters; empty: the rest
  std::string why_large = {};             // the reason, if it holds more than its share; otherwise empty
};

// `share`: of all parameters in one unit, where the modules allow it, above 0 and up to 1. `in_order_of_use`:
// parameters say their uses. The rest comes first, if there is one.
std::vector<AutomaticUnit> automatic_units(const ModuleNode& root, double share, bool in_order_of_use);

// As fsdp::kLargestUnitShare.
inline constexpr double kLargestShare = 0.25;

using UnitOfMember = std::unordered_map<std::string, size_t>;

// The unit of the tensor itself, or of the innermost module around it; 0, the rest, for all others.
size_t unit_of(std::string name, const UnitOfMember& units);

}  // namespace fsdp::plan
