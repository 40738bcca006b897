// The states of a rule at work: what is packed is unpacked a part at a time, stepped in fp32 while it lies in a cache,
// and packed again. Rules and kernels know nothing of it.
#pragma once

#include <vector>

#include "optim/rule.h"

namespace fsdp::optim {

// All that keep a rule's states, one state's after the other's.
std::vector<KeptTensor> kept_tensors(const Rule& rule);
bool has_packed_states(const Rule& rule);

// Steps a batch whose states are the kept tensors.
void update_kept(const Rule& rule, const UpdateBatch& batch, const Settings& settings);

}  // namespace fsdp::optim
