// The shm backend: the ranks of one host share memory.
//
// Destroying the group runs no collective; who still waits for this rank is told that it left.
#include "collectives/group.h"

#include <cstring>
#include <utility>

#include "base/error.h"
#include "collectives/shm/context.h"
#include "collectives/shm/gather_choice.h"
#include "collectives/shm/memory_node.h"
#include "collectives/shm/transport.h"
#include "collectives/shm/unit.h"
#include "collectives/tensor_collectives.h"

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
    shm::Exchange& exchange = context.exchange();
    exchange.begin("connects the ranks", size);
    exchange.round([&](char* mailbox) { std::memcpy(mailbox, &own, sizeof own); });
    std::vector<char*> all;
    for (int rank = 0; rank < size; ++rank) {
      uint64_t theirs = 0;
      std::memcpy(&theirs, exchange.mailbox(rank), sizeof theirs);
      all.push_back(context.memory_of(rank).at(theirs));
    }
    return SharedMemoryTransport(context.ranks(), all);
  });
}

class ShmGroup final : public Group {
 public:
  explicit ShmGroup(const GroupSpec& spec)
      : context_(std::make_shared<shm::SharedMemoryContext>(spec)),
        gather_by_(shm::choose_gather(*context_, shm::memory_node())),
        transport_(open_transport(*context_)),
        collectives_(transport_) {}

  int rank() const override { return context_->ranks().rank(); }
  int size() const override { return context_->ranks().size(); }
  std::unique_ptr<UnitCollectives> open_unit(const GroupUnitSpec& spec) override {
    return std::make_unique<shm::SharedMemoryUnit>(context_, spec, gather_by_);
  }
  torch::Tensor allocate(int64_t bytes) override { return context_->allocate(bytes); }
  void note_call(const WorldCall* call) override { context_->ranks().note_call(call); }

  void compare(CallFacts* facts) override { collectives_.compare(facts); }
  void barrier() override;
  void all_reduce_(torch::Tensor& tensor) override;
  void broadcast_(torch::Tensor& tensor, int source) override;
  std::vector<torch::Tensor> all_gather(const torch::Tensor& tensor, const std::string& purpose) override;

 private:
  // Meanwhile this rank begins no reduction.
  template <typename Operation>
  auto run(const char* name, Operation&& operation) {
    return context_->guarded(message_prefix(), name, [&] {
      const PhaseScope phase(context_->ranks(), Phase::AwaitsEndOfBackward);
      return operation();
    });
  }

  std::shared_ptr<shm::SharedMemoryContext> context_;
  const shm::GatherBy gather_by_;
  SharedMemoryTransport transport_;
  TensorCollectives collectives_;
};

void ShmGroup::barrier() {
  run("barrier", [&] { collectives_.barrier(); });
}

void ShmGroup::all_reduce_(torch::Tensor& tensor) {
  run("all_reduce", [&] { collectives_.all_reduce_(tensor); });
}

void ShmGroup::broadcast_(torch::Tensor& tensor, int source) {
  run("broadcast", [&] { collectives_.broadcast_(tensor, source); });
}

std::vector<torch::Tensor> ShmGroup::all_gather(const torch::Tensor& tensor, const std::string& purpose) {
  return run("all_gather", [&] { return collectives_.all_gather(tensor, purpose); });
}

}  // namespace

std::unique_ptr<Group> make_shm_group(const GroupSpec& spec) { return std::make_unique<ShmGroup>(spec); }

}  // namespace fsdp::collectives
