// Units for any model: its blocks, or else modules put together up to a size. plan/automatic_units.h decides.
#include "plan/automatic_units.h"

#include <utility>

#include "api/module_tree.h"
#include "base/error.h"
#include "fsdp/options.h"

namespace fsdp {

namespace {

static_assert(kLargestUnitShare == plan::kLargestShare);

std::vector<UnitMembers> divide_automatically(const torch::nn::Module& module, const std::vector<std::string>& ignored,
                                              const AutomaticUnitsOptions& options) {
  std::vector<UnitMembers> units;
  for (plan::AutomaticUnit& unit :
       plan::automatic_units(tree_of(module, ignored, options.order), options.largest_share, !options.order.empty())) {
    units.push_back({std::move(unit.name), std::move(unit.members), std::move(unit.why_large)});
  }
  return units;
}

}  // namespace

UnitPolicy units_automatic() { return units_automatic(AutomaticUnitsOptions()); }

UnitPolicy units_automatic(AutomaticUnitsOptions options) {
  FSDP_CHECK(options.largest_share > 0 && options.largest_share <= 1,
             "units_automatic: found largest_share {}, expected a number above 0 and up to 1", options.largest_share);
  return UnitPolicy(
      [options = std::move(options)](const torch::nn::Module& root, const std::vector<std::string>& ignored) {
        return divide_automatically(root, ignored, options);
      });
}

}  // namespace fsdp
