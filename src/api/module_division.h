// From a module and a policy to units of named tensors.
#pragma once

#include <torch/nn/module.h>

#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "fsdp/options.h"
#include "fsdp/sharded_model.h"

namespace fsdp {

struct ModuleDivision {
  // In the order of the policy, the rest before them; in each, parameters in the order of registration.
  std::vector<NamedUnit> units = {};
  NamedTensors ignored = {};                                    // that options.ignored leaves alone, by first name
  std::unordered_set<std::string> statistics = {};              // names of buffers that only evaluation reads
  std::vector<std::pair<std::string, std::string>> large = {};  // units larger than the policy promises, and why
  // The unit with nearly all parameters, of several modules, which a policy made that did not ask for one unit; or
  // empty.
  std::string undivided = {};
};

// Throws Error for a name pattern that matches nothing, and for a policy that finds no unit or
// gives two of them one name.
ModuleDivision divide(const torch::nn::Module& module, const Options& options);
// Buffers of a unit without parameters become the first one's.
void drop_empty(std::vector<NamedUnit>& units);
// To stderr: all larger units in one warning, and the undivided one in another.
void warn_of_large_units(const ModuleDivision& division);

}  // namespace fsdp
