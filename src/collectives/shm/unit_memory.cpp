#include "collectives/shm/unit_memory.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "base/error.h"
#include "memory/mapped_tensor.h"

namespace fsdp::collectives::shm {

namespace {

#ifdef FSDP_POISON
constexpr Access kReleased = Access::None;
#else
constexpr Access kReleased = Access::Read;
#endif

// A rank's message to the others of its host when it opens a unit.
struct Opening {
  uint64_t control = 0;
  uint64_t first_byte = 0;  // of the file
  int file = -1;
};

}  // namespace

UnitMemory::UnitMemory(SharedMemoryContext& context, const GroupUnitSpec& spec, const UnitOnHost& on_host)
    : layout_(spec.layout) {
  Ranks& ranks = context.ranks();
  const int group = layout_.group_index(on_host.first_rank + ranks.rank());
  for (int peer : ranks.peers()) {
    if (layout_.group_index(on_host.first_rank + peer) == group) sharers_.push_back(peer);
  }
  open(context, spec, on_host);
  epochs_.emplace(ranks, members_, sharers_, spec.name);
}

// The first rank of the unit makes the file, and closes it when all have it mapped.
void UnitMemory::open(SharedMemoryContext& context, const GroupUnitSpec& spec, const UnitOnHost& on_host) {
  Ranks& ranks = context.ranks();
  Exchange& exchange = context.exchange();
  const size_t bytes = layout_.full_numel() * c10::elementSize(spec.dtype);
  const bool is_shared = on_host.is_kept && layout_.shards() > 1 && bytes > 0;
  int first = ranks.rank();
  for (int peer : sharers_) first = std::min(first, peer);
  std::optional<MemoryFile> file;
  if (is_shared && ranks.rank() == first) file.emplace(spec.backing->new_file());
  const Opening own{make_control(*context.memory()), file ? file->first_byte() : 0, file ? file->descriptor() : -1};

  exchange.begin("opens unit " + spec.name, bytes);
  exchange.round([&](char* mailbox) { std::memcpy(mailbox, &own, sizeof own); });
  std::vector<Opening> openings(ranks.size());
  for (int number = 0; number < ranks.size(); ++number) {
    std::memcpy(&openings[number], exchange.mailbox(number), sizeof(Opening));
    RankMemory& memory = context.memory_of(number);
    members_.push_back({reinterpret_cast<UnitControl*>(memory.at(openings[number].control)), &memory});
  }
  if (is_shared && !file)
    file.emplace(spec.backing->open_file(context.process_of(first), openings[first].file, openings[first].first_byte,
                                         ranks.name_of(first)));
  exchange.round();  // a rank that finds no memory for its part closes the file
  if (is_shared) {
    map(*file, spec.dtype, on_host.first_rank + ranks.rank(), on_host.fetched);
  } else {
    shard_ = spec.backing->zeros(layout_.shard_numel(), torch::dtype(spec.dtype));
  }
  exchange.round();
}

// It is never given back while the group lives: a peer that is late may still look at it.
uint64_t UnitMemory::make_control(OwnMemory& memory) const {
  const uint64_t address = memory.allocate(sizeof(UnitControl) + layout_.parameters());
  new (memory.at(address)) UnitControl;
  return address;
}

// Each rank asks for the pages that it writes, which so lie near it.
void UnitMemory::map(MemoryFile& file, torch::ScalarType dtype, int rank, const std::vector<int>& fetched) {
  const size_t element = c10::elementSize(dtype);
  auto grant_shard_of = [&](int owner) {
    file.grant(layout_.shard_of(owner).begin * element, layout_.shard_numel() * element);
  };
  grant_shard_of(rank);
  for (int owner : fetched) grant_shard_of(owner);
  const size_t bytes = layout_.full_numel() * element;
  full_ = std::make_shared<Mapping>(file, bytes, kReleased);
  const auto writable = std::make_shared<const Mapping>(file, bytes, Access::Write);
  writable_ = writable->base();
  shard_ = shard_over(file, dtype, rank, writable);
  if (!file.on_disk()) return;
  for (const auto& mapping : {std::shared_ptr<const Mapping>(full_), writable})
    whole_.emplace_back(*file.on_disk(), mapping, file.first_byte(), mapping->base(), bytes);
}

torch::Tensor UnitMemory::shard_over(const MemoryFile& file, torch::ScalarType dtype, int rank,
                                     const std::shared_ptr<const Mapping>& writable) const {
  const size_t element = c10::elementSize(dtype), bytes = layout_.shard_numel() * element;
  char* begin = writable->base() + layout_.shard_of(rank).begin * element;
  if (file.on_disk()) {
    const auto pages = std::make_shared<memory::FilePages>(*file.on_disk(), writable, file.first_byte(), begin, bytes);
    return memory::tensor_over(pages, layout_.shard_numel(), dtype);
  }
  return torch::from_blob(
      begin, {layout_.shard_numel()}, [writable](void*) {}, torch::dtype(dtype));
}

bool UnitMemory::begin_write(Readers readers) {
  if (!full_) return true;
  if (readers == Readers::Ask) return epochs_->try_begin_write();
  epochs_->begin_write();
  return true;
}

void UnitMemory::publish() {
  if (full_) epochs_->publish();
}

void UnitMemory::wait_published(const std::function<void(int number)>& published) {
  if (full_) epochs_->wait_published(published);
}

void UnitMemory::read_ahead() const {
  if (!whole_.empty()) whole_.front().read_ahead();
  if (!is_shared()) memory::read_ahead(shard_);
}

void* UnitMemory::wait_full() {
  if (!full_) return shard_.mutable_data_ptr();
  wait_published();
  if (kReleased == Access::None) full_->allow(Access::Read);
  return full_->base();
}

void UnitMemory::release() {
  if (full_ && kReleased == Access::None) full_->allow(Access::None);
  for (const memory::FilePages& pages : whole_) pages.put_away();
  if (!is_shared()) memory::put_away(shard_);
}

}  // namespace fsdp::collectives::shm
