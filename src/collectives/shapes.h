// Whether what a reduction is given has the shapes that its unit says.
#pragma once

#include "collectives/group.h"

namespace fsdp::collectives {

// An internal error unless the gradients, and the sum that they are to be added to, are the unit's by their layout.
void check_shapes(const Gradients& gradients, const GradientSum& sum, const UnitSpec& unit);

}  // namespace fsdp::collectives
