#include "collectives/hosts/unit.h"

#include <utility>

#include "base/error.h"
#include "collectives/shapes.h"

namespace fsdp::collectives::hosts {

namespace {

shm::UnitMemory open_memory(HostsContext& context, const GroupUnitSpec& spec) {
  return context.in_memory(message_prefix(spec.name), "open", [&] {
    return shm::UnitMemory(context.shared(), spec,
                           {.first_rank = context.rank_on(context.host(), 0),
                            .is_kept = !is_gathered_per_use(context, spec),
                            .fetched = context.counterparts_in_group(spec.layout)});
  });
}

std::unique_ptr<HostsParameters> make_parameters(HostsContext& context, const GroupUnitSpec& spec,
                                                 shm::UnitMemory& memory) {
  check_number(spec);
  const auto make = is_gathered_per_use(context, spec) ? make_gathered_parameters : make_kept_parameters;
  return make(context, spec, memory);
}

}  // namespace

bool is_gathered_per_use(const HostsContext& context, const GroupUnitSpec& spec) {
  const layout::UnitLayout& layout = spec.layout;
  return !spec.may_be_kept && layout.shards() > context.ranks_of_a_host() && layout.full_numel() > 0;
}

HostsUnit::HostsUnit(std::shared_ptr<HostsContext> context, GroupUnitSpec spec)
    : context_(std::move(context)),
      spec_(std::move(spec)),
      memory_(open_memory(*context_, spec_)),
      parameters_(make_parameters(*context_, spec_, memory_)),
      reduction_(*context_, memory_.members(), spec_) {}

void HostsUnit::begin_reduce(Gradients gradients, GradientSum& sum) {
  FSDP_INVARIANT(!reduction_.under_way(), "unit {} is being reduced already", spec_.name);
  check_shapes(gradients, sum, spec_);
  const uint64_t address = context_->shared().address_of(gradients.values);
  reduction_.begin(std::move(gradients), address, sum);
}

}  // namespace fsdp::collectives::hosts
