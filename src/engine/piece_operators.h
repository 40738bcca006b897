// Which operators of a user's own may be run on pieces: an element-wise optimizer of LibTorch may step on them.
#pragma once

#include <string_view>

#include "interpose/listener.h"

namespace fsdp::engine {

// Throws Error for an operator whose result depends on many elements of a tensor, of which this rank has a part only.
void check_element_wise(const interpose::PieceUse& use, std::string_view operation);

// True if the tensor would show other memory afterwards, or other elements of it.
bool changes_form(std::string_view operation);

// Throws Error for an operator after which a piece would no longer show the model's memory.
void check_keeps_form(const interpose::PieceUse& use, std::string_view operation);

// True if the operator sets what it writes to zero.
bool sets_to_zero(std::string_view operation);

// Throws Error for an operator that writes a piece and takes a parameter that would have to be full meanwhile.
void check_takes_no_parameter(const interpose::PieceUse& use, std::string_view operation);

}  // namespace fsdp::engine
