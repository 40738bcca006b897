#include "collectives/hosts/unit.h"

#include <exception>
#include <utility>

#include "base/error.h"
#include "collectives/shapes.h"

namespace fsdp::collectives::hosts {

namespace {

constexpr const char* kWaitingForReaders = "waiting for the readers of this rank's shard";

// A transfer as one message to wait for.
class TransferMessage final : public Message {
 public:
  TransferMessage(TransferQueue& queue, Transfer& transfer) : queue_(queue), transfer_(transfer) {}
  void wait() override { queue_.wait(transfer_); }
  void abort() override { queue_.abort(); }

 private:
  TransferQueue& queue_;
  Transfer& transfer_;
};

UnitMemory open_memory(HostsContext& context, const GroupUnitSpec& spec) {
  return context.in_memory(message_prefix(spec.name), "open", [&] { return UnitMemory(context, spec); });
}

}  // namespace

HostsUnit::HostsUnit(std::shared_ptr<HostsContext> context, GroupUnitSpec spec)
    : context_(std::move(context)),
      spec_(std::move(spec)),
      prefix_(message_prefix(spec_.name)),
      memory_(open_memory(*context_, spec_)),
      reduction_(*context_, memory_.members(), spec_) {
  check_number(spec_);
  fetch_.arrived = [this] { memory_.publish(); };
}

HostsUnit::~HostsUnit() {
  try {
    if (std::uncaught_exceptions() == 0) wait_fetched("publication");
  } catch (const std::exception&) {
    // Whoever still needs the group will be told.
  }
  context_->transfers().cancel(fetch_);
}

void HostsUnit::wait_fetched(const char* operation) {
  if (fetched_) return;
  context_->on_wire(prefix_, operation, [&] {
    Messages all;
    all.push_back(std::make_unique<TransferMessage>(context_->transfers(), fetch_));
    context_->wire()->wait_all(all);
    fetch_.messages.clear();
  });
  fetched_ = true;
}

bool HostsUnit::begin_write(Readers readers) {
  if (readers == Readers::Ask)
    return fetched_ && context_->in_memory(prefix_, kWaitingForReaders, [&] { return memory_.try_begin_write(); });
  if (readers == Readers::Wait) context_->wire()->begins("is about to write unit " + spec_.name);
  wait_fetched(kWaitingForReaders);
  context_->in_memory(prefix_, kWaitingForReaders, [&] { memory_.begin_write(); });
  return true;
}

void HostsUnit::publish() {
  if (memory_.fetched_from().empty() || spec_.layout.full_numel() == 0) return memory_.publish();
  context_->on_wire(prefix_, "publication", [&] {
    Wire& wire = *context_->wire();
    const int tag = tag_of(spec_.id, UnitMessage::Gather);
    const torch::Tensor own = shard();
    for (int rank : memory_.fetched_from())
      fetch_.messages.push_back(wire.receive(memory_.place_of(rank), own.nbytes(), rank, tag));
    for (int rank : memory_.fetched_from())
      fetch_.messages.push_back(wire.send(own.const_data_ptr(), own.nbytes(), rank, tag));
    fetched_ = false;
    context_->transfers().add(fetch_);
  });
}

void* HostsUnit::wait_gather() {
  wait_fetched("gather");
  return context_->in_memory(prefix_, "gather", [&] { return memory_.wait_full(); });
}

void HostsUnit::begin_reduce(Gradients gradients, GradientSum& sum) {
  FSDP_INVARIANT(!reduction_.under_way(), "unit {} is being reduced already", spec_.name);
  check_shapes(gradients, sum, spec_);
  const uint64_t address = context_->shared().address_of(gradients.values);
  reduction_.begin(std::move(gradients), address, sum);
}

}  // namespace fsdp::collectives::hosts
