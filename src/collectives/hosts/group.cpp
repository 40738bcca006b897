// The hosts backend: shared memory between the ranks of a host, Gloo between hosts.
//
// Whole tensors travel over Gloo between all ranks, so that they are summed in rank order, as by every backend.
#include <utility>

#include "collectives/exchange_group.h"
#include "collectives/hosts/context.h"
#include "collectives/hosts/unit.h"
#include "collectives/unit_exchange.h"

namespace fsdp::collectives {

namespace {

class HostsGroup final : public Group {
 public:
  explicit HostsGroup(const GroupSpec& spec)
      : context_(std::make_shared<hosts::HostsContext>(spec, make_gloo_wire(spec))), exchange_(context_->wire()) {}

  int rank() const override { return context_->rank(); }
  int size() const override { return context_->size(); }
  std::unique_ptr<UnitCollectives> open_unit(const GroupUnitSpec& spec) override;
  int64_t buffer_bytes() const override { return context_->buffer_bytes(); }
  torch::Tensor allocate(int64_t bytes) override { return context_->shared().allocate(bytes); }

  void note_call(const WorldCall* call) override {
    context_->ranks().note_call(call);
    context_->wire()->note_call(call);
  }
  void compare(CallFacts* facts) override { exchange_.compare(facts); }
  void barrier() override {
    context_->for_all("barrier", [&] { exchange_.barrier(); });
  }
  void all_reduce_(torch::Tensor& tensor) override {
    context_->for_all("all_reduce", [&] { exchange_.all_reduce_(tensor); });
  }
  void broadcast_(torch::Tensor& tensor, int source) override {
    context_->for_all("broadcast", [&] { exchange_.broadcast_(tensor, source); });
  }
  std::vector<torch::Tensor> all_gather(const torch::Tensor& tensor, const std::string& purpose) override {
    return context_->for_all("all_gather", [&] { return exchange_.all_gather(tensor, purpose); });
  }

 private:
  std::shared_ptr<hosts::HostsContext> context_;
  ExchangeGroup exchange_;
};

// A shard group that has parts of hosts shares no memory.
std::unique_ptr<UnitCollectives> HostsGroup::open_unit(const GroupUnitSpec& spec) {
  const int shards = spec.layout.shards(), ranks = context_->ranks_of_a_host();
  if (shards % ranks != 0 && ranks % shards != 0) return std::make_unique<UnitExchange>(context_->wire(), spec);
  return std::make_unique<hosts::HostsUnit>(context_, spec);
}

}  // namespace

std::unique_ptr<Group> make_hosts_group(const GroupSpec& spec) { return std::make_unique<HostsGroup>(spec); }

}  // namespace fsdp::collectives
