// The hosts backend: shared memory between the ranks of a host, Gloo between hosts.
//
// Whole tensors travel over Gloo between all ranks, so that they are summed in rank order, as by every backend.
#include <utility>

#include "base/error.h"
#include "collectives/guarded_operations.h"
#include "collectives/hosts/context.h"
#include "collectives/hosts/unit.h"
#include "collectives/unit_exchange.h"

namespace fsdp::collectives {

namespace {

// The wire's waits are those of threads beside the program, and part of no circle.
GroupSpec spec_of_wire(GroupSpec spec) {
  spec.place.of_model = false;
  return spec;
}

// In an operation over the wire, what the ranks of this host need goes on.
struct HostsGuard {
  template <typename Operation>
  auto operator()(const char* name, Operation&& operation) const {
    return context->for_all(name, [&] { return context->wire()->guarded(message_prefix(), name, operation); });
  }
  hosts::HostsContext* context;
};

class HostsGroup final : public Group {
 public:
  explicit HostsGroup(const GroupSpec& spec)
      : context_(std::make_shared<hosts::HostsContext>(spec, make_gloo_wire(spec_of_wire(spec)))),
        tensors_(*context_->wire(), {context_.get()}) {}

  int rank() const override { return context_->rank(); }
  int size() const override { return context_->size(); }
  int name_of(int rank) const override { return context_->wire()->name_of(rank); }
  std::unique_ptr<UnitCollectives> open_unit(const GroupUnitSpec& spec) override;
  int64_t buffer_bytes() const override { return context_->buffer_bytes(); }
  torch::Tensor allocate(int64_t bytes) override { return context_->shared().allocate(bytes); }

  void note_call(const WorldCall* call) override {
    context_->ranks().note_call(call);
    context_->wire()->note_call(call);
  }
  TensorOperations& tensors() override { return tensors_; }

 private:
  std::shared_ptr<hosts::HostsContext> context_;
  GuardedOperations<HostsGuard> tensors_;
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
