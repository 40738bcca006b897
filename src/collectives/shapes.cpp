#include "collectives/shapes.h"

#include "base/error.h"

namespace fsdp::collectives {

void check_shapes(const Gradients& gradients, const GradientSum& sum, const UnitSpec& unit) {
  const layout::GradientLayout& layout = *gradients.layout;
  FSDP_INVARIANT(gradients.values.numel() == layout.full_numel() &&
                     gradients.values.scalar_type() == unit.gradient_dtype &&
                     gradients.present.size() == layout.parameters() && sum.held.size() == layout.parameters(),
                 "unit {} was given {} gradients of {} parameters, expected {} of {}", unit.name,
                 gradients.values.numel(), gradients.present.size(), layout.full_numel(), layout.parameters());
}

}  // namespace fsdp::collectives
