// Whether a unit's number has tags, and what its reductions are given has the shapes that it says.
#pragma once

#include "collectives/group.h"

namespace fsdp::collectives {

// Throws Error for a unit whose messages could not be told from others'.
void check_number(const GroupUnitSpec& unit);
// An internal error unless the gradients, and the sum that they are to be added to, are the unit's by their layout.
void check_shapes(const Gradients& gradients, const GradientSum& sum, const GroupUnitSpec& unit);

}  // namespace fsdp::collectives
