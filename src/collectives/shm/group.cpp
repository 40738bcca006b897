// The shm backend: the ranks of one host share memory.
//
// Destroying the group runs no collective; who still waits for this rank is told that it left.
#include "collectives/group.h"

#include <utility>

#include "base/error.h"
#include "collectives/guarded_operations.h"
#include "collectives/shm/context.h"
#include "collectives/shm/gather_choice.h"
#include "collectives/shm/lending.h"
#include "collectives/shm/memory_node.h"
#include "collectives/shm/transport.h"
#include "collectives/shm/unit.h"

namespace fsdp::collectives {

namespace {

using shm::Phase;
using shm::PhaseScope;
using shm::SharedMemoryTransport;

// A collective. The memory is not given back while the group lives: a peer that is late may still look at it.
SharedMemoryTransport open_transport(shm::SharedMemoryContext& context) {
  return context.guarded(message_prefix(), "shm", [&] {
    const int size = context.ranks().size();
    shm::OwnMemory& memory = *context.memory();
    const uint64_t own = memory.allocate(SharedMemoryTransport::bytes_for(size));
    SharedMemoryTransport::prepare(memory.at(own), size);
    context.exchange().begin("connects the ranks", size);
    std::vector<char*> all;
    for (const uint64_t theirs : context.exchange().tell(own)) {
      all.push_back(context.memory_of(static_cast<int>(all.size())).at(theirs));
    }
    return SharedMemoryTransport(context.ranks(), all, shm::choose_lending(context.exchange()));
  });
}

// In an operation, this rank begins no reduction.
struct SharedMemoryGuard {
  template <typename Operation>
  auto operator()(const char* name, Operation&& operation) const {
    return context->guarded(message_prefix(), name, [&] {
      const PhaseScope phase(context->ranks(), Phase::AwaitsEndOfBackward);
      return operation();
    });
  }
  shm::SharedMemoryContext* context;
};

class ShmGroup final : public Group {
 public:
  explicit ShmGroup(const GroupSpec& spec)
      : context_(std::make_shared<shm::SharedMemoryContext>(spec)),
        gather_by_(shm::choose_gather(*context_, shm::memory_node())),
        transport_(open_transport(*context_)),
        tensors_(transport_, {context_.get()}) {}

  int rank() const override { return context_->ranks().rank(); }
  int size() const override { return context_->ranks().size(); }
  int name_of(int rank) const override { return context_->ranks().name_of(rank); }
  std::unique_ptr<UnitCollectives> open_unit(const GroupUnitSpec& spec) override {
    return std::make_unique<shm::SharedMemoryUnit>(context_, spec, gather_by_);
  }
  torch::Tensor allocate(int64_t bytes) override { return context_->allocate(bytes); }
  void note_call(const WorldCall* call) override { context_->ranks().note_call(call); }

  TensorOperations& tensors() override { return tensors_; }

 private:
  std::shared_ptr<shm::SharedMemoryContext> context_;
  const shm::GatherBy gather_by_;
  SharedMemoryTransport transport_;
  GuardedOperations<SharedMemoryGuard> tensors_;
};

}  // namespace

std::unique_ptr<Group> make_shm_group(const GroupSpec& spec) { return std::make_unique<ShmGroup>(spec); }

}  // namespace fsdp::collectives
