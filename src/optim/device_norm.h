// The norm of gradients that lie on a device, added up there: the same blocks, in the same order, and the same exact
// sum of theirs as norm.h's. Nothing here waits for the device.
//
// A sum lies on the device as NormSum::words() lies on the host: [NormSum::kWords] int64.
#pragma once

#include <torch/types.h>

#include <vector>

#include "optim/norm.h"

namespace fsdp::optim {

// The sum over one or more contiguous fp32 pieces on one device. Each starts at a block's start.
torch::Tensor norm_words(const std::vector<torch::Tensor>& pieces, double norm_type);
// The sum of such sums.
torch::Tensor add_norm_words(const std::vector<torch::Tensor>& sums);
// The norm, [] of float64: NormSum::norm's bits, unless norm_type is neither 2 nor infinity.
torch::Tensor norm_of_words(const torch::Tensor& words, double norm_type);

}  // namespace fsdp::optim
