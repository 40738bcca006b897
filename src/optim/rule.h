// One optimizer's arithmetic, as data: what RuleOnPieces needs to know of it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "engine/sharded_unit.h"
#include "optim/settings.h"
#include "optim/state_format.h"

namespace fsdp::optim {

// Parameters of one group and one unit that have a gradient, in the model's order; the entries at one place belong
// together. Pieces are 1-D and may be empty.
struct UpdateBatch {
  const engine::ShardedUnit* unit = nullptr;
  std::vector<size_t> parameters = {};  // their places in the model's parameters
  std::vector<torch::Tensor> pieces = {};
  std::vector<torch::Tensor> gradients = {};
  std::vector<torch::Tensor> steps = {};                // scalars: this step included
  std::vector<std::vector<torch::Tensor>> states = {};  // for each of the rule's states, the pieces' tensors in fp32
};

struct Rule {
  std::string name;               // for messages
  Settings defaults;              // of a parameter in no group
  std::vector<RuleState> states;  // zero at first
  // `update` is given the tensors that keep the states, one state's after the other's, and not the states in fp32.
  bool takes_kept = false;
  // True if `update` hands its steps to kernels, which read them on the pieces' device. Otherwise the host reads them.
  bool kernels_read_steps = false;
  // Element-wise ones are given parts of pieces, which begin at multiples of 64 elements.
  bool element_wise = true;
  std::function<void(const UpdateBatch&, const Settings&)> update;
};

}  // namespace fsdp::optim
