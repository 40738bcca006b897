#include "collectives/hosts/unit_memory.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "base/error.h"
#include "collectives/hosts/hosts_parameters.h"

namespace fsdp::collectives::hosts {

namespace {

#ifdef FSDP_POISON
constexpr shm::Access kReleased = shm::Access::None;
#else
constexpr shm::Access kReleased = shm::Access::Read;
#endif

// What a rank tells the others of its host of a unit that it opens.
struct Opening {
  uint64_t control = 0;
  int file = -1;
};

}  // namespace

UnitMemory::UnitMemory(HostsContext& context, const GroupUnitSpec& spec)
    : context_(&context),
      layout_(spec.layout),
      read_purpose_("gathers unit " + spec.name),
      write_purpose_("is about to write unit " + spec.name) {
  auto shares_unit = [&](int rank) { return layout_.group_index(rank) == layout_.group_index(context.rank()); };
  for (int peer : context.ranks().peers()) {
    if (shares_unit(context.rank_on(context.host(), peer))) peers_.push_back(peer);
  }
  for (int host = 0; host < context.hosts(); ++host) {
    const int counterpart = context.counterpart(host);
    if (host != context.host() && shares_unit(counterpart)) fetched_from_.push_back(counterpart);
  }
  open(spec);
  counters_.emplace(own_control());
}

// The first of the shard group's ranks on this host makes the file, and closes it when all have it mapped.
void UnitMemory::open(const GroupUnitSpec& spec) {
  shm::SharedMemoryContext& shared = context_->shared();
  shm::Exchange& exchange = shared.exchange();
  const int self = context_->number_on_host();
  int first = self;
  for (int peer : peers_) first = std::min(first, peer);
  const size_t bytes = layout_.full_numel() * c10::elementSize(spec.dtype);
  const bool is_shared = layout_.shards() > 1 && bytes > 0 && !is_gathered_per_use(*context_, spec);
  std::optional<shm::MemoryFile> file;
  if (is_shared && self == first) file.emplace(shm::MemoryFile::create());
  const Opening own{make_control(*shared.memory()), file ? file->descriptor() : -1};

  exchange.begin("opens unit " + spec.name, bytes);
  exchange.round([&](char* mailbox) { std::memcpy(mailbox, &own, sizeof own); });
  std::vector<Opening> openings(context_->ranks_of_a_host());
  for (int number = 0; number < context_->ranks_of_a_host(); ++number) {
    std::memcpy(&openings[number], exchange.mailbox(number), sizeof(Opening));
    shm::RankMemory& memory = shared.memory_of(number);
    members_.push_back({reinterpret_cast<shm::UnitControl*>(memory.at(openings[number].control)), &memory});
  }
  if (is_shared && !file) {
    const int name = context_->ranks().name_of(first);
    file.emplace(shm::MemoryFile::open(shared.process_of(first), openings[first].file, name));
  }
  exchange.round();  // a rank that finds no memory for its part closes the file
  if (is_shared) {
    map(*file, spec.dtype);
  } else {
    shard_ = torch::zeros({layout_.shard_numel()}, torch::dtype(spec.dtype));
  }
  exchange.round();
}

// It is never given back while the group lives: a peer that is late may still look at it.
uint64_t UnitMemory::make_control(shm::OwnMemory& memory) const {
  const uint64_t address = memory.allocate(sizeof(shm::UnitControl) + layout_.parameters());
  new (memory.at(address)) shm::UnitControl;
  return address;
}

// Each rank asks for the pages that it writes.
void UnitMemory::map(shm::MemoryFile& file, torch::ScalarType dtype) {
  const size_t element = c10::elementSize(dtype);
  auto grant_shard_of = [&](int rank) {
    file.grant(layout_.shard_of(rank).begin * element, layout_.shard_numel() * element);
  };
  grant_shard_of(context_->rank());
  for (int rank : fetched_from_) grant_shard_of(rank);
  full_.emplace(file, layout_.full_numel() * element, kReleased);
  auto own = std::make_shared<shm::Mapping>(file, layout_.full_numel() * element, shm::Access::Write);
  writable_ = own->base();
  char* begin = writable_ + layout_.shard_of(context_->rank()).begin * element;
  shard_ = torch::from_blob(
      begin, {layout_.shard_numel()}, [own](void*) {}, torch::dtype(dtype));
}

void* UnitMemory::place_of(int rank) const { return writable_ + layout_.shard_index(rank) * shard_.nbytes(); }

void UnitMemory::begin_write() {
  if (!full_) return;
  end_reads();
  context_->wait(peers_, write_purpose_,
                 [this](int number) { return counters_->has_entered(*members_[number].control); });
  has_ended_reads_ = false;
}

bool UnitMemory::try_begin_write() {
  if (!full_) return true;
  end_reads();
  has_ended_reads_ = !std::all_of(peers_.begin(), peers_.end(),
                                  [this](int number) { return counters_->has_entered(*members_[number].control); });
  return !has_ended_reads_;
}

void UnitMemory::end_reads() {
  if (std::exchange(has_ended_reads_, true)) return;
  counters_->enter();
  context_->ranks().ring();
}

void UnitMemory::publish() {
  if (!full_) return;
  counters_->publish();
  context_->ranks().ring();
}

void* UnitMemory::wait_full() {
  if (!full_) return shard_.mutable_data_ptr();
  context_->wait(peers_, read_purpose_,
                 [this](int number) { return counters_->has_published(*members_[number].control); });
  if (kReleased == shm::Access::None) full_->allow(shm::Access::Read);
  return full_->base();
}

void UnitMemory::release() {
  if (full_ && kReleased == shm::Access::None) full_->allow(shm::Access::None);
}

}  // namespace fsdp::collectives::hosts
