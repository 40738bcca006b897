// Any operator, by the CPU's kernel on the device's bytes, as one launch on the current stream.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace fsdp::testing::device {

void run_on_device(const c10::OperatorHandle& operation, torch::jit::Stack* stack);

}  // namespace fsdp::testing::device
