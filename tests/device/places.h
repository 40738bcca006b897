// Where the program is, kept cheaply and shown rarely.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace fsdp::testing::device {

using Place = uint32_t;  // 0: none

// Of the caller. Not for concurrent use.
Place this_place();
// The innermost functions of the program, one a line, without those of LibTorch and of the tests' device.
std::string text_of(Place place);
std::string text_of_frames(void* const* frames, size_t count);

}  // namespace fsdp::testing::device
