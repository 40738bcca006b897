// A unit that its host keeps whole until the next write: the ranks of a host together hold it once (the secondary
// partition of ZeRO++, arXiv:2306.10209).
//
// Publishing a shard sends it to the counterparts on the other hosts, and starts to receive theirs straight into their
// places, beside the caller. A gather waits until all of the host have what they fetch, and copies nothing. It is
// one-sided: a rank gathers as often as it likes, in any order, and asks nothing else of its peers.
#include <exception>
#include <string>

#include "base/error.h"
#include "collectives/hosts/context.h"
#include "collectives/hosts/hosts_parameters.h"
#include "collectives/hosts/transfer_queue.h"
#include "collectives/shm/unit_memory.h"
#include "collectives/tags.h"

namespace fsdp::collectives::hosts {

namespace {

constexpr const char* kReadersOfKept = "waiting for the readers of this rank's shard";

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

class KeptParameters final : public HostsParameters {
 public:
  KeptParameters(HostsContext& context, const GroupUnitSpec& spec, shm::UnitMemory& memory)
      : context_(context),
        name_(spec.name),
        prefix_(message_prefix(spec.name)),
        tag_(tag_of(spec.id, UnitMessage::Gather)),
        memory_(memory),
        fetched_from_(context.counterparts_in_group(spec.layout)) {
    fetch_.arrived = [this] { memory_.publish(); };
  }
  // Waits until the counterparts have what was published, unless the group failed or the stack is being unwound.
  ~KeptParameters() override;

  bool one_sided() const override { return true; }
  int64_t bytes() const override { return static_cast<int64_t>(fetched_from_.size() * memory_.shard().nbytes()); }
  bool begin_write(Readers readers) override;
  void publish() override;
  void begin_gather(Order) override { memory_.read_ahead(); }
  void* wait_gather() override;
  void release() override { memory_.release(); }

 private:
  void wait_fetched(const char* operation);

  HostsContext& context_;
  std::string name_, prefix_;
  int tag_;
  shm::UnitMemory& memory_;
  std::vector<int> fetched_from_;
  Transfer fetch_;       // of the last publication
  bool fetched_ = true;  // it was waited for
};

KeptParameters::~KeptParameters() {
  try {
    if (std::uncaught_exceptions() == 0) wait_fetched("publication");
  } catch (const std::exception&) {
    // Its later users get the error.
  }
  context_.transfers().cancel(fetch_);
}

void KeptParameters::wait_fetched(const char* operation) {
  if (fetched_) return;
  context_.on_wire(prefix_, operation, [&] {
    Messages all;
    all.push_back(std::make_unique<TransferMessage>(context_.transfers(), fetch_));
    context_.wait_all(all);
    fetch_.messages.clear();
  });
  fetched_ = true;
}

bool KeptParameters::begin_write(Readers readers) {
  if (readers == Readers::Ask && !fetched_) return false;
  if (readers == Readers::Wait) context_.wire()->begins("is about to write unit " + name_);
  wait_fetched(kReadersOfKept);
  return context_.in_memory(prefix_, kReadersOfKept, [&] { return memory_.begin_write(readers); });
}

void KeptParameters::publish() {
  const torch::Tensor own = memory_.shard();
  if (fetched_from_.empty() || own.numel() == 0) return memory_.publish();
  context_.on_wire(prefix_, "publication", [&] {
    Wire& wire = *context_.wire();
    for (int rank : fetched_from_)
      fetch_.messages.push_back(wire.receive(memory_.place_of(rank), own.nbytes(), rank, tag_));
    for (int rank : fetched_from_) fetch_.messages.push_back(wire.send(own.const_data_ptr(), own.nbytes(), rank, tag_));
    fetched_ = false;
    context_.transfers().add(fetch_);
  });
}

void* KeptParameters::wait_gather() {
  wait_fetched("gather");
  return context_.in_memory(prefix_, "gather", [&] { return memory_.wait_full(); });
}

}  // namespace

std::unique_ptr<HostsParameters> make_kept_parameters(HostsContext& context, const GroupUnitSpec& spec,
                                                      shm::UnitMemory& memory) {
  return std::make_unique<KeptParameters>(context, spec, memory);
}

}  // namespace fsdp::collectives::hosts
