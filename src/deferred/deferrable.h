// Calls that cannot be performed later.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include "interpose/deferred_tensor.h"

namespace fsdp::deferred {

// Of an operator that this recorder is to record: an error that names it where it changes sizes, makes what is not
// dense, draws from a generator or on a device that cannot be replayed, or takes tensors of another recording.
void check_deferrable(const interpose::OperatorRecorder& recorder, const c10::OperatorHandle& operation,
                      const torch::jit::Stack& arguments);

}  // namespace fsdp::deferred
