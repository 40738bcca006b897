// Pinned memory of the host. While a copy that the host has not waited for writes such bytes, the host cannot read
// them, and while one reads them, it cannot write them: a use faults, is noted as a missing wait, and goes on.
#pragma once

#include <c10/core/Allocator.h>

#include <functional>

#include "device/device.h"

namespace fsdp::testing::device {

c10::Allocator& pinned_allocator();

struct CopyUnderWay {
  uint32_t stream = 0;
  uint64_t time = 0;
  const char* what = nullptr;
  std::string stream_name;
};
// Other memory than pinned is let be. Whole pages alone are held: those of the range, and that of the block's end.
void hold_pinned(const Range& range, bool written, CopyUnderWay copy);
// Of the copies that are over.
void release_pinned(const std::function<bool(uint32_t stream, uint64_t time)>& is_over);
// From the handler of a fault: whether the address was held. It can be used then.
bool note_pinned_fault(const void* pointer);

}  // namespace fsdp::testing::device
