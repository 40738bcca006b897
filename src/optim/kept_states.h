// The states of a rule at work: what is packed is unpacked a part at a time, stepped in fp32 while it lies in a cache,
// and packed again. Rules and kernels know nothing of it.
#pragma once

#include <vector>

#include "optim/rule.h"

namespace fsdp::optim {

// All that keep a rule's states, one state's after the other's.
std::vector<KeptTensor> kept_tensors(const Rule& rule);
// True if some state is unpacked for the rule.
bool unpacks_states(const Rule& rule);

// Steps batches whose states are the kept tensors, one after the other in the same fp32. On the stack of a step.
class KeptStates {
 public:
  explicit KeptStates(const Rule& rule) : rule_(rule), unpacked_(rule.states.size()) {}

  void update(const UpdateBatch& batch, const Settings& settings);

 private:
  UpdateBatch unpack(const UpdateBatch& batch);
  void pack(const UpdateBatch& in_fp32, const UpdateBatch& batch);

  const Rule& rule_;
  std::vector<torch::Tensor> unpacked_;  // one for each state that is packed: the batch's pieces, one after the other
};

}  // namespace fsdp::optim
