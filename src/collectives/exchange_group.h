// A group over point-to-point messages: the collectives of a backend that offers no more than a Transport.
//
// One thread at a time. Owns the transport, together with the units that it opened. Every rank hears from every other
// directly, so that a failure names the rank that is missing and not one that waits for it in its turn. The first
// failure poisons the group and its units. Destroying it runs no collective.
#pragma once

#include <memory>
#include <vector>

#include "collectives/group.h"
#include "collectives/wire.h"

namespace fsdp::collectives {

class ExchangeGroup final : public Group {
 public:
  explicit ExchangeGroup(std::unique_ptr<Transport> transport) : wire_(std::make_shared<Wire>(std::move(transport))) {}

  int rank() const override { return wire_->rank(); }
  int size() const override { return wire_->size(); }
  std::unique_ptr<UnitCollectives> open_unit(const UnitSpec& spec) override;

  void barrier() override;
  void all_reduce_(torch::Tensor& tensor) override;
  void broadcast_(torch::Tensor& tensor, int source) override;
  std::vector<torch::Tensor> all_gather(const torch::Tensor& tensor) override;

 private:
  std::shared_ptr<Wire> wire_;
};

}  // namespace fsdp::collectives
