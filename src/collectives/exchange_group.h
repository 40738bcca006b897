// A group over point-to-point messages: the collectives of a backend that offers no more than a Transport.
//
// One thread at a time. Owns the transport, together with the units that it opened. The first failure poisons the group
// and its units. Destroying it runs no collective.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "base/error.h"
#include "collectives/group.h"
#include "collectives/guarded_operations.h"
#include "collectives/wire.h"

namespace fsdp::collectives {

class ExchangeGroup final : public Group {
 public:
  // `board`: none, and a rank that diverges or fails is noticed by its silence alone. `world_ranks` is how messages
  // call the ranks; empty: by their own number.
  explicit ExchangeGroup(std::unique_ptr<Transport> transport, std::unique_ptr<StatusBoard> board = {},
                         std::vector<int> world_ranks = {})
      : ExchangeGroup(std::make_shared<Wire>(std::move(transport), std::move(board), std::move(world_ranks))) {}
  explicit ExchangeGroup(std::shared_ptr<Wire> wire) : wire_(std::move(wire)), tensors_(*wire_, {wire_.get()}) {}

  int rank() const override { return wire_->rank(); }
  int size() const override { return wire_->size(); }
  int name_of(int rank) const override { return wire_->name_of(rank); }
  std::unique_ptr<UnitCollectives> open_unit(const GroupUnitSpec& spec) override;
  void note_call(const WorldCall* call) override { wire_->note_call(call); }

  TensorOperations& tensors() override { return tensors_; }

 private:
  struct Guard {
    template <typename Operation>
    auto operator()(const char* name, Operation&& operation) const {
      return wire->guarded(message_prefix(), name, operation);
    }
    Wire* wire;
  };

  std::shared_ptr<Wire> wire_;
  GuardedOperations<Guard> tensors_;
};

}  // namespace fsdp::collectives
