// The norm of gradients that lie on a device, added up there: the same blocks, in the same order, and the same exact
// sum of theirs as norm.h's, with a few numbers to bring to the host instead of the gradients.
#pragma once

#include <torch/types.h>

#include <vector>

#include "optim/norm.h"

namespace fsdp::optim {

// Of contiguous fp32 pieces, each of which starts at a block's start. Waits for the device.
NormSum norm_on_device(const std::vector<torch::Tensor>& pieces, double norm_type);

}  // namespace fsdp::optim
