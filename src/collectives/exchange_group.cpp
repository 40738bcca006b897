#include "collectives/exchange_group.h"

#include "base/error.h"
#include "collectives/all_reduce.h"
#include "collectives/tags.h"
#include "collectives/unit_exchange.h"

namespace fsdp::collectives {

std::unique_ptr<UnitCollectives> ExchangeGroup::open_unit(const GroupUnitSpec& spec) {
  return std::make_unique<UnitExchange>(wire_, spec);
}

void ExchangeGroup::barrier() {
  wire_->guarded(message_prefix(), "barrier", [&] {
    wire_->begins("enters a barrier");
    // Not empty: a transport may skip empty messages, and these are to be waited for.
    const char here = 1;
    std::vector<char> there(size());
    Messages messages;
    for (int peer : wire_->peers()) messages.push_back(wire_->receive(&there[peer], 1, peer, kBarrierTag));
    for (int peer : wire_->peers()) messages.push_back(wire_->send(&here, 1, peer, kBarrierTag));
    wire_->wait_all(messages);
  });
}

void ExchangeGroup::all_reduce_(torch::Tensor& tensor) {
  wire_->guarded(message_prefix(), "all_reduce", [&] {
    wire_->begins("enters an all_reduce");
    all_reduce_in_order(*wire_, tensor);
  });
}

void ExchangeGroup::broadcast_(torch::Tensor& tensor, int source) {
  wire_->guarded(message_prefix(), "broadcast", [&] {
    wire_->begins("enters a broadcast");
    // A binomial tree: in each round, every rank that has the values gives them to one that has not.
    int distance = (rank() - source + size()) % size();
    int reach = 1;
    for (; reach <= distance; reach *= 2) {
    }
    if (distance > 0) {
      int parent = (source + distance - reach / 2) % size();
      Messages receives;
      receives.push_back(wire_->receive(tensor.mutable_data_ptr(), tensor.nbytes(), parent, kBroadcastTag));
      wire_->wait_all(receives);
    }
    Messages sends;
    for (; distance + reach < size(); reach *= 2)
      sends.push_back(
          wire_->send(tensor.const_data_ptr(), tensor.nbytes(), (source + distance + reach) % size(), kBroadcastTag));
    wire_->wait_all(sends);
  });
}

std::vector<torch::Tensor> ExchangeGroup::all_gather(const torch::Tensor& tensor, const std::string& purpose) {
  return wire_->guarded(message_prefix(), "all_gather", [&] {
    wire_->begins(purpose);
    return all_gather_parts(*wire_, tensor);
  });
}

}  // namespace fsdp::collectives
