// The update of AdamW and Adam whose moments are kept in blocks of 8 bits: on the kept tensors themselves.
#pragma once

#include "optim/rule.h"

namespace fsdp::optim {

enum class WeightDecay { Decoupled, Added };  // AdamW's; Adam's, which is added to the gradient

// The batch's states are those of adam_moments(StateDtype::Block8), and its tensors lie on the CPU.
void update_block8(const UpdateBatch& batch, const Settings& with, WeightDecay decay, bool maximize = false);

}  // namespace fsdp::optim
