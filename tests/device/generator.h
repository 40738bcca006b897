// The device's generators of random numbers. One draws what a CPU generator with its seed draws.
#pragma once

#include <ATen/core/Generator.h>

namespace fsdp::testing::device {

const at::Generator& default_generator(c10::DeviceIndex device);  // -1: the current device
at::Generator new_generator(c10::DeviceIndex device);
// The CPU generator within; one of the CPU is itself.
at::Generator on_cpu(const at::Generator& generator);

}  // namespace fsdp::testing::device
