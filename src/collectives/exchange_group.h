// A group over point-to-point messages: the collectives of a backend that offers no more than a Transport.
//
// One thread at a time. Owns the transport, together with the units that it opened. The first failure poisons the group
// and its units. Destroying it runs no collective.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "collectives/group.h"
#include "collectives/tensor_collectives.h"
#include "collectives/wire.h"

namespace fsdp::collectives {

class ExchangeGroup final : public Group {
 public:
  // `board`: none, and a rank that diverges or fails is noticed by its silence alone. `world_ranks` is how messages
  // call the ranks; empty: by their own number.
  explicit ExchangeGroup(std::unique_ptr<Transport> transport, std::unique_ptr<StatusBoard> board = {},
                         std::vector<int> world_ranks = {})
      : ExchangeGroup(std::make_shared<Wire>(std::move(transport), std::move(board), std::move(world_ranks))) {}
  explicit ExchangeGroup(std::shared_ptr<Wire> wire) : wire_(std::move(wire)), collectives_(*wire_) {}

  int rank() const override { return wire_->rank(); }
  int size() const override { return wire_->size(); }
  std::unique_ptr<UnitCollectives> open_unit(const GroupUnitSpec& spec) override;
  void note_call(const WorldCall* call) override { wire_->note_call(call); }

  void compare(CallFacts* facts) override { collectives_.compare(facts); }
  void barrier() override;
  void all_reduce_(torch::Tensor& tensor) override;
  void broadcast_(torch::Tensor& tensor, int source) override;
  std::vector<torch::Tensor> all_gather(const torch::Tensor& tensor, const std::string& purpose) override;

 private:
  std::shared_ptr<Wire> wire_;
  TensorCollectives collectives_;
};

}  // namespace fsdp::collectives
