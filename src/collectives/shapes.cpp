#include "collectives/shapes.h"

#include "base/error.h"
#include "collectives/tags.h"

namespace fsdp::collectives {

// Backends without `joins` do not override this.
void UnitCollectives::join_gather(const torch::Tensor&) { FSDP_INVARIANT(false, "a gather that cannot be joined"); }

void check_number(const GroupUnitSpec& unit) {
  FSDP_CHECK_UNIT(unit.id < kMostUnits, unit.name,
                  "open: expected at most {} units over Gloo, found more. Make the units larger (units_by_size).",
                  kMostUnits);
}

void check_ranks(int ranks, const GroupUnitSpec& unit) {
  FSDP_INVARIANT(unit.layout.ranks() == ranks, "unit {} is laid out for {} ranks, the group has {}", unit.name,
                 unit.layout.ranks(), ranks);
}

void check_buffer(const torch::Tensor& buffer, const GroupUnitSpec& unit) {
  FSDP_INVARIANT(buffer.numel() == unit.layout.full_numel() && buffer.scalar_type() == unit.dtype,
                 "unit {} was given a buffer of {} elements, expected {}", unit.name, buffer.numel(),
                 unit.layout.full_numel());
}

void check_shapes(const Gradients& gradients, const GradientSum& sum, const GroupUnitSpec& unit) {
  const layout::GradientLayout& layout = *gradients.layout;
  FSDP_INVARIANT(gradients.values.numel() == layout.full_numel() &&
                     gradients.values.scalar_type() == unit.gradient_dtype &&
                     gradients.present.size() == layout.parameters() && sum.held.size() == layout.parameters(),
                 "unit {} was given {} gradients of {} parameters, expected {} of {}", unit.name,
                 gradients.values.numel(), gradients.present.size(), layout.full_numel(), layout.parameters());
}

}  // namespace fsdp::collectives
