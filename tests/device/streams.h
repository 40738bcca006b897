// The current device and streams of each thread, as CUDA has them.
#pragma once

#include <c10/core/Stream.h>

namespace fsdp::testing::device {

c10::DeviceIndex number_of_devices();  // does not count as a use
c10::DeviceIndex current_device();
void set_current_device(c10::DeviceIndex device);
c10::Stream current_stream(c10::DeviceIndex device);
// One of 32 of each priority, in turns.
c10::Stream stream_from_pool(c10::DeviceIndex device, bool high_priority);

}  // namespace fsdp::testing::device
