// A TorchScript model.
#pragma once

#include <torch/script.h>

#include "support/models.h"

namespace fsdp::testing_models {

constexpr int64_t kScriptedBlocks = 3;

// Blocks in a list, and a head that is tied to the weight of the input.
torch::jit::Module make_scripted();

// Tensors of `model` under names that a native module may have. Refers to it.
TestModel as_native(torch::jit::Module& model);

// TorchScript compiles a module anew once it has seen it run: only then does each backward go the same way.
void warm_up(torch::jit::Module& model);

}  // namespace fsdp::testing_models
