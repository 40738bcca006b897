// Finds the place of a module in a larger model: layers that are divided among ranks, and blocks among others.
#pragma once

#include <torch/nn/module.h>

#include <map>
#include <string>
#include <vector>

#include "engine/whole_model.h"
#include "fsdp/sharded_model.h"

namespace fsdp {

// A module that consists of some blocks of a larger model.
class BlocksOfModel {
 public:
  virtual ~BlocksOfModel() = default;
  // Names of all blocks of the model, in order. They begin the names of the blocks' parameters.
  virtual std::vector<std::string> all_blocks() const = 0;
  // Parameters of this module that are copies of others: their names, and those of the first copies in the model.
  virtual std::map<std::string, std::string> first_names() const = 0;
};

// `units` have the module's parameters, by the names that count. The ranks are left out. Throws Error for a division
// that does not fit its parameter.
engine::WholeModel whole_model_of(const torch::nn::Module& module, const std::vector<NamedUnit>& units);

}  // namespace fsdp
