// Models with parameters of unusual kinds, or that a step leaves out.
#pragma once

#include "support/models.h"

namespace fsdp::testing_models {

// LoRA (Hu and others, https://arxiv.org/abs/2106.09685): blocks whose matrices are frozen, with small ones beside
// them.
TestModel make_adapters(int64_t blocks = 4);

// Blocks of an fp32 norm and bf16 matrices.
TestModel make_several_dtypes();

// Scalars and empty tensors, alone in units that hold less than one rank's part.
TestModel make_small();

// Three convolutions whose weights and inputs lie channels last.
TestModel make_channels_last();

// Two outputs in a tuple beside a third; three heads on a body of three layers.
TestModel make_nested_outputs();

// Of that model's heads, one is used by no rank; the last layer's gain by ranks of even number, a second gain by the
// others.
TestModel make_unused_on_all_ranks();
TestModel make_unused_on_some_ranks();

}  // namespace fsdp::testing_models
