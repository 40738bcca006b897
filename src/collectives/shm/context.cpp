#include "collectives/shm/context.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

namespace fsdp::collectives::shm {

namespace {

// A rank's memory and process, as they travel.
struct Address {
  pid_t process = 0;
  int file = -1;
  size_t reserved = 0;
};

std::string key_of(int rank) { return fmt::format("shm/{}", rank); }

std::vector<uint8_t> encode(const Address& address) {
  const std::string text = fmt::format("{} {} {}", address.process, address.file, address.reserved);
  return {text.begin(), text.end()};
}

Address decode(const std::vector<uint8_t>& bytes) {
  Address address;
  const std::string text(bytes.begin(), bytes.end());
  const int fields = std::sscanf(text.c_str(), "%d %d %zu", &address.process, &address.file, &address.reserved);
  FSDP_INVARIANT(fields == 3, "the address of a rank's memory reads '{}'", text);
  return address;
}

// No rank can have more than the machine; all of them together stay well within an address space of 47 bits.
size_t reserved_bytes(int ranks) {
  const size_t memory = static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return std::min(memory, (size_t{1} << 45) / ranks);
}

Address wait_for_address(const GroupSpec& spec, int peer, int name) {
  try {
    return decode(spec.store->get(key_of(peer)));
  } catch (const std::exception&) {
    throw PeerLost(
        fmt::format("{}shm: rank {} did not say within {} ms where its memory is. Check that every rank has started.",
                    message_prefix(), name, spec.timeout.count()));
  }
}

}  // namespace

Context::Context(const GroupSpec& spec) : memory_(std::make_shared<OwnMemory>(reserved_bytes(spec.size))) {
  spec.store->setTimeout(spec.timeout);
  spec.store->set(key_of(spec.rank), encode({getpid(), memory_->file().descriptor(), memory_->reserved()}));
  std::vector<Member> members(spec.size);
  peers_.resize(spec.size);
  processes_.assign(spec.size, getpid());
  for (int rank = 0; rank < spec.size; ++rank) {
    members[rank] = {&memory_->control(), getpid(), spec.world_ranks.empty() ? rank : spec.world_ranks[rank]};
    if (rank == spec.rank) continue;
    const Address address = wait_for_address(spec, rank, members[rank].name);
    const MemoryFile file = MemoryFile::open(address.process, address.file, members[rank].name);
    peers_[rank] = std::make_unique<Mapping>(file, address.reserved, Access::Write);
    processes_[rank] = address.process;
    members[rank].control = reinterpret_cast<Control*>(peers_[rank]->base());
    members[rank].process = address.process;
  }
  ranks_ = std::make_unique<Ranks>(spec.rank, std::move(members), spec.timeout);
  exchange_ = std::make_unique<Exchange>(*ranks_);
  // A rank that is done at once must not be gone before its peers have opened its memory.
  guarded(message_prefix(), "shm", [&] {
    exchange_->begin("joins the group", 0);
    exchange_->round();
  });
}

torch::Tensor Context::allocate(int64_t bytes) {
  if (bytes == 0) return torch::empty({0}, torch::kUInt8);
  const uint64_t offset = memory_->allocate(bytes);
  return torch::from_blob(
      memory_->base() + offset, {bytes}, [memory = memory_, offset](void*) { memory->free(offset); }, torch::kUInt8);
}

uint64_t Context::offset_of(const torch::Tensor& tensor) const {
  if (tensor.numel() == 0) return 0;
  const auto* begin = static_cast<const char*>(tensor.const_data_ptr());
  FSDP_INVARIANT(memory_->base() <= begin && begin + tensor.nbytes() <= memory_->base() + memory_->reserved(),
                 "{} bytes do not lie in memory that the group allocated", tensor.nbytes());
  return begin - memory_->base();
}

void Context::fail(const std::string& start, const WaitFailure& failure) {
  const std::string message = fmt::format("{}: {}", start, failure.what());
  const bool diverged = failure.kind() == WaitFailure::Kind::Diverged;
  failure_ = diverged ? std::make_exception_ptr(Error(message)) : std::make_exception_ptr(PeerLost(message));
  const Failure own{ranks_->name_of(ranks_->rank()), message, !diverged};
  ranks_->fail(failure.cause().value_or(own));
}

}  // namespace fsdp::collectives::shm
