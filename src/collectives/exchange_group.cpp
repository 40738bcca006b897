#include "collectives/exchange_group.h"

#include "collectives/unit_exchange.h"

namespace fsdp::collectives {

std::unique_ptr<UnitCollectives> ExchangeGroup::open_unit(const GroupUnitSpec& spec) {
  return std::make_unique<UnitExchange>(wire_, spec);
}

}  // namespace fsdp::collectives
