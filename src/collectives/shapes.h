// Checks of a unit that is opened, and of the tensors that its gathers and reductions are given.
#pragma once

#include "collectives/group.h"

namespace fsdp::collectives {

// Throws Error for a unit whose messages could not be told from others'.
void check_number(const GroupUnitSpec& unit);
// An internal error unless the unit is laid out for so many ranks, those of the group.
void check_ranks(int ranks, const GroupUnitSpec& unit);
// An internal error unless the full unit fits into `buffer`, element by element.
void check_buffer(const torch::Tensor& buffer, const GroupUnitSpec& unit);
// An internal error unless the gradients, and the sum that they are to be added to, are the unit's by their layout.
void check_shapes(const Gradients& gradients, const GradientSum& sum, const GroupUnitSpec& unit);

}  // namespace fsdp::collectives
