// The shm backend: the ranks of one host share memory.
//
// Whole tensors travel through the ranks' mailboxes, a part at a time. Destroying the group runs no collective; who
// still waits for this rank is told that it left.
#include "collectives/group.h"

#include <algorithm>
#include <cstring>

#include "collectives/all_reduce.h"
#include "collectives/shm/context.h"
#include "collectives/shm/gather_choice.h"
#include "collectives/shm/memory_node.h"
#include "collectives/shm/unit.h"

namespace fsdp::collectives {

namespace {

using shm::kMailboxBytes;
using shm::Phase;
using shm::PhaseScope;

// A tensor's bytes from `begin`, at most a mailbox of them.
struct Part {
  size_t begin = 0;
  size_t bytes = 0;
};

// At least one, so that an empty tensor is waited for as well.
std::vector<Part> parts_of(size_t bytes) {
  std::vector<Part> parts;
  do {
    const size_t begin = parts.size() * kMailboxBytes;
    parts.push_back({begin, std::min(kMailboxBytes, bytes - begin)});
  } while (parts.back().begin + parts.back().bytes < bytes);
  return parts;
}

void copy(void* to, const void* from, size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

char* bytes_of(const torch::Tensor& tensor) { return static_cast<char*>(tensor.mutable_data_ptr()); }

class ShmGroup final : public Group {
 public:
  explicit ShmGroup(const GroupSpec& spec)
      : context_(std::make_shared<shm::SharedMemoryContext>(spec)),
        gather_by_(shm::choose_gather(*context_, shm::memory_node())) {}

  int rank() const override { return context_->ranks().rank(); }
  int size() const override { return context_->ranks().size(); }
  std::unique_ptr<UnitCollectives> open_unit(const GroupUnitSpec& spec) override {
    return std::make_unique<shm::SharedMemoryUnit>(context_, spec, gather_by_);
  }
  torch::Tensor allocate(int64_t bytes) override { return context_->allocate(bytes); }
  void note_call(const WorldCall* call) override { context_->ranks().note_call(call); }

  void barrier() override;
  void all_reduce_(torch::Tensor& tensor) override;
  void broadcast_(torch::Tensor& tensor, int source) override;
  std::vector<torch::Tensor> all_gather(const torch::Tensor& tensor, const std::string& purpose) override;

 private:
  void all_reduce_part(const torch::Tensor& part);
  torch::Tensor in_mailbox(int rank, const torch::Tensor& like) const;

  std::shared_ptr<shm::SharedMemoryContext> context_;
  const shm::GatherBy gather_by_;
};

void ShmGroup::barrier() {
  context_->guarded(message_prefix(), "barrier", [&] {
    context_->exchange().begin("enters a barrier", 0);
    context_->exchange().round();
  });
}

std::vector<torch::Tensor> ShmGroup::all_gather(const torch::Tensor& tensor, const std::string& purpose) {
  return context_->guarded(message_prefix(), "all_gather", [&] {
    const PhaseScope phase(context_->ranks(), Phase::AwaitsEndOfBackward);
    shm::Exchange& exchange = context_->exchange();
    std::vector<torch::Tensor> all;
    for (int rank = 0; rank < size(); ++rank) all.push_back(torch::empty_like(tensor));
    exchange.begin(purpose, tensor.nbytes());
    for (const Part& part : parts_of(tensor.nbytes())) {
      exchange.round([&](char* mailbox) {
        copy(mailbox, static_cast<const char*>(tensor.const_data_ptr()) + part.begin, part.bytes);
      });
      for (int rank = 0; rank < size(); ++rank)
        copy(bytes_of(all[rank]) + part.begin, exchange.mailbox(rank), part.bytes);
    }
    return all;
  });
}

void ShmGroup::broadcast_(torch::Tensor& tensor, int source) {
  context_->guarded(message_prefix(), "broadcast", [&] {
    shm::Exchange& exchange = context_->exchange();
    exchange.begin("enters a broadcast", tensor.nbytes());
    for (const Part& part : parts_of(tensor.nbytes())) {
      exchange.round([&](char* mailbox) {
        if (rank() == source) copy(mailbox, bytes_of(tensor) + part.begin, part.bytes);
      });
      if (rank() != source) copy(bytes_of(tensor) + part.begin, exchange.mailbox(source), part.bytes);
    }
  });
}

void ShmGroup::all_reduce_(torch::Tensor& tensor) {
  context_->guarded(message_prefix(), "all_reduce", [&] {
    torch::NoGradGuard no_grad;
    context_->exchange().begin("enters an all_reduce", tensor.nbytes());
    const torch::Tensor flat = tensor.detach().view({-1});
    const int64_t part_numel = kMailboxBytes / flat.element_size();
    for (const torch::Tensor& part : flat.split(std::max<int64_t>(part_numel, 1))) all_reduce_part(part);
  });
}

torch::Tensor ShmGroup::in_mailbox(int rank, const torch::Tensor& like) const {
  // There is no tensor over constant memory; this one is only read.
  auto* begin = const_cast<char*>(context_->exchange().mailbox(rank));
  return torch::from_blob(begin, {like.numel()}, like.options());
}

// Each rank adds up an even share of the part, and shows the sum in the next round.
void ShmGroup::all_reduce_part(const torch::Tensor& part) {
  shm::Exchange& exchange = context_->exchange();
  exchange.round([&](char* mailbox) { copy(mailbox, bytes_of(part), part.nbytes()); });
  auto share_of = [&](const torch::Tensor& whole, int rank) {
    const int64_t each = (whole.numel() + size() - 1) / size();
    const int64_t begin = std::min(rank * each, whole.numel());
    return whole.narrow(0, begin, std::min(each, whole.numel() - begin));
  };
  std::vector<torch::Tensor> addends;
  for (int from = 0; from < size(); ++from) addends.push_back(share_of(in_mailbox(from, part), rank()));
  const torch::Tensor sum = sum_in_order(addends);
  exchange.round([&](char* mailbox) { copy(mailbox, sum.const_data_ptr(), sum.nbytes()); });
  for (int from = 0; from < size(); ++from) {
    const torch::Tensor share = share_of(part, from);
    copy(bytes_of(share), exchange.mailbox(from), share.nbytes());
  }
}

}  // namespace

std::unique_ptr<Group> make_shm_group(const GroupSpec& spec) { return std::make_unique<ShmGroup>(spec); }

}  // namespace fsdp::collectives
