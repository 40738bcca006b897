// Which operators of a user's own may be run on pieces: an element-wise optimizer of LibTorch may step on them.
#pragma once

#include <string_view>

#include "interpose/listener.h"

namespace fsdp::engine {

// Throws Error for an operator whose result depends on many elements of a tensor, of which this rank has a part only.
void check_element_wise(const interpose::PieceUse& use, std::string_view operation);

}  // namespace fsdp::engine
