#include "collectives/shm/unit.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "base/error.h"
#include "collectives/element_type.h"
#include "collectives/shapes.h"
#include "collectives/shm/peer_copy.h"

namespace fsdp::collectives::shm {

namespace {

#ifdef FSDP_POISON
constexpr bool kPoisons = true;
#else
constexpr bool kPoisons = false;
#endif

constexpr const char* kWaitingForReaders = "waiting for the readers of this rank's shard";

// What a rank tells of a unit that it opens.
struct Opening {
  uint64_t control = 0;
  int file = -1;
};

}  // namespace

SharedMemoryUnit::SharedMemoryUnit(std::shared_ptr<SharedMemoryContext> context, GroupUnitSpec spec, GatherBy gather_by)
    : context_(std::move(context)),
      spec_(std::move(spec)),
      gather_by_(gather_by),
      gather_purpose_("gathers unit " + spec_.name),
      write_purpose_("is about to write unit " + spec_.name) {
  Ranks& ranks = context_->ranks();
  const layout::UnitLayout& layout = spec_.layout;
  FSDP_INVARIANT(layout.ranks() == ranks.size(), "unit {} is laid out for {} ranks, the group has {}", spec_.name,
                 layout.ranks(), ranks.size());
  for (int peer : ranks.peers()) {
    if (layout.group_index(peer) == layout.group_index(ranks.rank())) shard_peers_.push_back(peer);
  }
  context_->guarded(message_prefix(spec_.name), "open", [&] { open(); });
  counters_.emplace(*members_[ranks.rank()].control);
  reduction_.emplace(ranks, *counters_, members_, element_type_of(spec_.gradient_dtype), spec_.name);
}

// The first rank of a shard group makes the file, and closes it when all have it mapped.
void SharedMemoryUnit::open() {
  Ranks& ranks = context_->ranks();
  Exchange& exchange = context_->exchange();
  const layout::UnitLayout& layout = spec_.layout;
  const size_t bytes = layout.full_numel() * c10::elementSize(spec_.dtype);
  const int first = layout.group_index(ranks.rank()) * layout.shards();
  const bool shared = layout.shards() > 1 && bytes > 0;
  std::optional<MemoryFile> made;
  if (shared && ranks.rank() == first) made.emplace(MemoryFile::create());
  const Opening own{make_control(), made ? made->descriptor() : -1};

  exchange.begin(fmt::format("opens unit {}", spec_.name), bytes);
  exchange.round([&](char* mailbox) { std::memcpy(mailbox, &own, sizeof own); });
  std::vector<Opening> openings(ranks.size());
  for (int rank = 0; rank < ranks.size(); ++rank) {
    std::memcpy(&openings[rank], exchange.mailbox(rank), sizeof(Opening));
    RankMemory& memory = context_->memory_of(rank);
    const bool replica = rank != ranks.rank() && layout.shard_index(rank) == layout.shard_index(ranks.rank());
    members_.push_back({reinterpret_cast<UnitControl*>(memory.at(openings[rank].control)), &memory, replica});
  }
  if (shared && !made)
    made.emplace(MemoryFile::open(context_->process_of(first), openings[first].file, ranks.name_of(first)));
  exchange.round();  // a rank that finds no memory for its shard closes the file
  if (shared) {
    map_shard(*made);
  } else {
    shard_ = torch::zeros({layout.shard_numel()}, torch::dtype(spec_.dtype));
  }
  exchange.round();
}

// It is never given back while the group lives: a peer that is late may still look at it.
uint64_t SharedMemoryUnit::make_control() {
  const layout::UnitLayout& layout = spec_.layout;
  OwnMemory& memory = *context_->memory();
  const uint64_t address = memory.allocate(sizeof(UnitControl) + layout.parameters());
  auto* control = new (memory.at(address)) UnitControl;
  if (layout.shards() < layout.ranks() && layout.full_numel() > 0) {
    sums_bytes_ = layout.slice_numel() * static_cast<int64_t>(sizeof(float));
    control->sums = memory.allocate(sums_bytes_);
  }
  return address;
}

// Each rank asks for the pages of its own shard, which so lie near it.
void SharedMemoryUnit::map_shard(MemoryFile& file) {
  const layout::UnitLayout& layout = spec_.layout;
  const size_t element = c10::elementSize(spec_.dtype);
  const size_t offset = layout.shard_of(context_->ranks().rank()).begin * element;
  file.grant(offset, layout.shard_numel() * element);
  full_.emplace(file, layout.full_numel() * element, released());
  auto own = std::make_shared<Mapping>(file, layout.full_numel() * element, Access::Write);
  char* begin = own->base() + offset;
  shard_ = torch::from_blob(
      begin, {layout.shard_numel()}, [own](void*) {}, torch::dtype(spec_.dtype));
}

bool SharedMemoryUnit::begin_write(Readers readers) {
  if (!full_) return true;
  const auto has_entered = [this](int rank) { return counters_->has_entered(*members_[rank].control); };
  const bool may_write = context_->guarded(message_prefix(spec_.name), kWaitingForReaders, [&] {
    end_reads();
    if (readers == Readers::Ask) return std::all_of(shard_peers_.begin(), shard_peers_.end(), has_entered);
    context_->ranks().wait(shard_peers_, write_purpose_, has_entered);
    return true;
  });
  has_ended_reads_ = !may_write;
  return may_write;
}

void SharedMemoryUnit::end_reads() {
  if (std::exchange(has_ended_reads_, true)) return;
  counters_->enter();
  context_->ranks().ring();
}

void SharedMemoryUnit::publish() {
  if (!full_) return;
  counters_->publish();
  context_->ranks().ring();
}

Access SharedMemoryUnit::released() const {
  return kPoisons && gather_by_ == GatherBy::Map ? Access::None : Access::Read;
}

void SharedMemoryUnit::begin_gather(const torch::Tensor& buffer, Order) {
  if (!copies()) return;
  FSDP_INVARIANT(buffer.numel() == spec_.layout.full_numel() && buffer.scalar_type() == spec_.dtype,
                 "unit {} was given a buffer of {} elements, expected {}", spec_.name, buffer.numel(),
                 spec_.layout.full_numel());
  buffer_ = buffer;
}

void* SharedMemoryUnit::wait_gather() {
  if (!full_) return shard_.mutable_data_ptr();
  context_->guarded(message_prefix(spec_.name), "gather", [&] {
    if (copies()) copy_shard(context_->ranks().rank());
    context_->ranks().wait(shard_peers_, gather_purpose_, [&](int rank) {
      if (!counters_->has_published(*members_[rank].control)) return false;
      if (copies()) copy_shard(rank);
      return true;
    });
  });
  if (copies()) return buffer_.mutable_data_ptr();
  if (released() == Access::None) full_->allow(Access::Read);
  return full_->base();
}

void SharedMemoryUnit::copy_shard(int rank) {
  const auto element = static_cast<int64_t>(c10::elementSize(spec_.dtype));
  const layout::Range shard = spec_.layout.shard_of(rank);
  copy_from_peer(static_cast<char*>(buffer_.mutable_data_ptr()) + shard.begin * element,
                 full_->base() + shard.begin * element, shard.numel() * element);
}

void SharedMemoryUnit::release() {
  buffer_ = torch::Tensor();
  if (full_ && released() == Access::None) full_->allow(Access::None);
}

void SharedMemoryUnit::begin_reduce(Gradients gradients, GradientSum& sum) {
  FSDP_INVARIANT(!reduction_->under_way(), "unit {} is being reduced already", spec_.name);
  const layout::GradientLayout& layout = *gradients.layout;
  check_shapes(gradients, sum, spec_);
  gradients_ = std::move(gradients);
  context_->guarded(message_prefix(spec_.name), "reduce", [&] {
    reduction_->begin(layout, context_->address_of(gradients_.values), gradients_.present,
                      sum.values.mutable_data_ptr<float>(), sum.held);
  });
}

bool SharedMemoryUnit::wait_begun() {
  return context_->guarded(message_prefix(spec_.name), "reduce", [&] { return reduction_->wait_begun(); });
}

void SharedMemoryUnit::wait_reduce() {
  context_->guarded(message_prefix(spec_.name), "reduce", [&] { reduction_->wait(); });
  gradients_ = {};
}

}  // namespace fsdp::collectives::shm
