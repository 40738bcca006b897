#include "collectives/shm/context.h"

#include <unistd.h>

#include <cstdio>
#include <utility>

#include "base/rank_names.h"

namespace fsdp::collectives::shm {

namespace {

// The begin of a rank's memory, as it travels.
struct Start {
  pid_t process = 0;
  Segment first = {};
};

std::string key_of(int rank) { return fmt::format("shm/{}", rank); }

std::vector<uint8_t> encode(const Start& start) {
  const std::string text = fmt::format("{} {} {}", start.process, start.first.file, start.first.bytes);
  return {text.begin(), text.end()};
}

Start decode(const std::vector<uint8_t>& bytes) {
  Start start;
  const std::string text(bytes.begin(), bytes.end());
  const int fields = std::sscanf(text.c_str(), "%d %d %zu", &start.process, &start.first.file, &start.first.bytes);
  FSDP_INVARIANT(fields == 3, "the address of a rank's memory reads '{}'", text);
  return start;
}

Start wait_for_start(const GroupSpec& spec, int peer, int name) {
  try {
    return decode(spec.store->get(key_of(peer)));
  } catch (const Error&) {
    throw;  // another program wrote it
  } catch (const std::exception&) {
    throw PeerLost(fmt::format("{}shm: {} did not publish its memory within {} ms. Check that every rank has started.",
                               message_prefix(), text_of_rank(name), spec.timeout.count()));
  }
}

}  // namespace

SharedMemoryContext::SharedMemoryContext(const GroupSpec& spec) : memory_(std::make_shared<OwnMemory>()) {
  spec.store->setTimeout(spec.timeout);
  spec.store->set(key_of(spec.rank), encode({getpid(), memory_->first_segment()}));
  std::vector<Member> members(spec.size);
  peers_.resize(spec.size);
  processes_.assign(spec.size, getpid());
  for (int rank = 0; rank < spec.size; ++rank) {
    members[rank] = {&memory_->control(), getpid(), spec.world_ranks.empty() ? rank : spec.world_ranks[rank]};
    if (rank == spec.rank) continue;
    const Start start = wait_for_start(spec, rank, members[rank].name);
    peers_[rank] = std::make_unique<PeerMemory>(start.process, members[rank].name, start.first);
    processes_[rank] = start.process;
    members[rank].control = &peers_[rank]->control();
    members[rank].process = start.process;
  }
  ranks_ = std::make_unique<Ranks>(spec.rank, std::move(members), spec.timeout, spec.calls, spec.place);
  exchange_ = std::make_unique<Exchange>(*ranks_);
  // A rank that is done at once must not be gone before its peers have opened its memory.
  guarded(message_prefix(), "shm", [&] {
    exchange_->begin("joins the group", 0);
    exchange_->round();
  });
}

torch::Tensor SharedMemoryContext::allocate(int64_t bytes) {
  if (bytes == 0) return torch::empty({0}, torch::kUInt8);
  const uint64_t address = memory_->allocate(bytes);
  return torch::from_blob(
      memory_->at(address), {bytes}, [memory = memory_, address](void*) { memory->free(address); }, torch::kUInt8);
}

RankMemory& SharedMemoryContext::memory_of(int rank) const {
  if (rank == ranks_->rank()) return *memory_;
  return *peers_[rank];
}

uint64_t SharedMemoryContext::address_of(const torch::Tensor& tensor) const {
  return tensor.numel() == 0 ? 0 : memory_->address_of(tensor.const_data_ptr(), tensor.nbytes());
}

std::exception_ptr SharedMemoryContext::explain(const std::string& start, const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const WaitFailure& wait) {
    return explain_wait(start, wait);
  } catch (const std::exception& own) {
    ranks_->fail({ranks_->name_of(ranks_->rank()), own.what()});
    return failure;
  }
}

std::exception_ptr SharedMemoryContext::explain_wait(const std::string& start, const WaitFailure& failure) {
  const bool diverged = failure.kind() == WaitFailure::Kind::Diverged;
  // The same text on every rank that diverged: it names the calls of both.
  const std::string message =
      diverged ? message_prefix() + failure.what() : fmt::format("{}: {}", start, failure.what());
  const Failure own{ranks_->name_of(ranks_->rank()), message, !diverged};
  ranks_->fail(failure.cause().value_or(own));
  return diverged ? std::make_exception_ptr(Error(message)) : std::make_exception_ptr(PeerLost(message));
}

}  // namespace fsdp::collectives::shm
