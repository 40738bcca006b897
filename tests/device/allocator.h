// The device's memory, as CUDA's caching allocator hands it out: a block that is freed goes to the next tensor of its
// size on the same stream, without a wait. A stream that was named by record_stream is waited for first.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Stream.h>

namespace fsdp::testing::device {

c10::DeviceAllocator& device_allocator();
// record_stream.
void use_on_stream(const void* pointer, const c10::Stream& stream);

}  // namespace fsdp::testing::device
