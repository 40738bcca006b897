// Calls that cannot be performed later.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include "interpose/deferred_tensor.h"

namespace fsdp::deferred {

// Checks an operator before it is recorded. Throws an error with its name if it changes sizes, makes tensors that are
// not dense, or takes tensors of another recording. Draws that cannot be replayed, by generator or device, are errors,
// too.
void check_deferrable(const interpose::OperatorRecorder& recorder, const c10::OperatorHandle& operation,
                      const torch::jit::Stack& arguments);

}  // namespace fsdp::deferred
