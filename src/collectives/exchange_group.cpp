#include "collectives/exchange_group.h"

#include "base/error.h"
#include "collectives/unit_exchange.h"

namespace fsdp::collectives {

std::unique_ptr<UnitCollectives> ExchangeGroup::open_unit(const GroupUnitSpec& spec) {
  return std::make_unique<UnitExchange>(wire_, spec);
}

void ExchangeGroup::barrier() {
  wire_->guarded(message_prefix(), "barrier", [&] { collectives_.barrier(); });
}

void ExchangeGroup::all_reduce_(torch::Tensor& tensor) {
  wire_->guarded(message_prefix(), "all_reduce", [&] { collectives_.all_reduce_(tensor); });
}

void ExchangeGroup::broadcast_(torch::Tensor& tensor, int source) {
  wire_->guarded(message_prefix(), "broadcast", [&] { collectives_.broadcast_(tensor, source); });
}

std::vector<torch::Tensor> ExchangeGroup::all_gather(const torch::Tensor& tensor, const std::string& purpose) {
  return wire_->guarded(message_prefix(), "all_gather", [&] { return collectives_.all_gather(tensor, purpose); });
}

}  // namespace fsdp::collectives
