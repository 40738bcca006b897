#include "collectives/shm/transport.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

#include "collectives/divergence.h"

namespace fsdp::collectives::shm {

namespace {

// The rings of one rank have so many bytes together, within the limits of one ring.
constexpr size_t kRingsBytes = size_t{1} << 20;
constexpr size_t kLeastRingBytes = size_t{16} << 10, kMostRingBytes = size_t{512} << 10;

constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();

size_t capacity_for(int ranks) {
  const size_t share = std::bit_floor(kRingsBytes / static_cast<size_t>(std::max(ranks - 1, 1)));
  return std::clamp(share, kLeastRingBytes, kMostRingBytes);
}

// In the memory that one rank writes: its rings lie in the order of its peers' numbers.
char* ring_at(int place, char* memory, int ranks) {
  return memory + sizeof(BegunOperations) + place * bytes_of_ring(capacity_for(ranks));
}

int place_among_peers(int rank, int of) { return rank < of ? rank : rank - 1; }

}  // namespace

class SharedMemoryTransport::OwnMessage final : public Message {
 public:
  OwnMessage(SharedMemoryTransport& transport, int peer) : transport_(transport), peer_(peer) {}
  ~OwnMessage() override {
    if (!transfer_.done) transport_.channel_of(peer_).give_up(transfer_);
  }
  void wait() override { transport_.wait(transfer_, peer_); }
  void abort() override { transfer_.aborted = true; }
  Transfer& transfer() { return transfer_; }
  int peer() const { return peer_; }
  bool is_over() const { return transfer_.done; }

 private:
  SharedMemoryTransport& transport_;
  Transfer transfer_;
  int peer_;
};

size_t SharedMemoryTransport::bytes_for(int ranks) {
  return sizeof(BegunOperations) + (ranks - 1) * bytes_of_ring(capacity_for(ranks));
}

void SharedMemoryTransport::prepare(char* memory, int ranks) {
  new (memory) BegunOperations;
  for (int place = 0; place < ranks - 1; ++place) new (ring_at(place, memory, ranks)) RingCounters;
}

SharedMemoryTransport::SharedMemoryTransport(Ranks& ranks, const std::vector<char*>& memory) : ranks_(&ranks) {
  const size_t capacity = capacity_for(size());
  for (char* each : memory) begun_.push_back(reinterpret_cast<BegunOperations*>(each));
  channels_.resize(size());
  compared_.resize(size());
  const auto ring = [&](int from, int to) { return ring_at(place_among_peers(to, from), memory[from], size()); };
  for (int peer : peers()) {
    channels_[peer] = std::make_unique<PeerChannel>(RingWriter(ring(rank(), peer), capacity),
                                                    RingReader(ring(peer, rank()), capacity));
  }
}

std::unique_ptr<Message> SharedMemoryTransport::send(const void* bytes, size_t size, int peer, int tag) {
  auto message = std::make_unique<OwnMessage>(*this, peer);
  PeerChannel& channel = channel_of(peer);
  channel.send(message->transfer(), {operation_, size, tag}, static_cast<const char*>(bytes));
  if (channel.advance(operation_)) ranks_->ring();
  return message;
}

std::unique_ptr<Message> SharedMemoryTransport::receive(void* bytes, size_t size, int peer, int tag) {
  auto message = std::make_unique<OwnMessage>(*this, peer);
  channel_of(peer).receive(message->transfer(), tag, static_cast<char*>(bytes), size);
  return message;
}

void SharedMemoryTransport::begin_operation(const std::string& purpose, size_t bytes) {
  ++operation_;
  purpose_ = purpose.substr(0, kPurposeBytes - 1);
  BegunOperations& own = *begun_[rank()];
  BegunOperation& operation = own.latest[operation_ % 2];
  operation.bytes = bytes;
  std::strcpy(operation.purpose, purpose_.c_str());
  own.number.set(operation_);
  ranks_->ring();
}

// Asked often: it looks at the messages again only when some have ended. A peer that has not begun the operation takes
// and sends nothing of it.
void SharedMemoryTransport::wait_all(Messages& messages) {
  looked_at_.assign(size(), kNever);
  are_over_.assign(size(), false);
  ranks_->wait(ranks_->peers(), purpose_, [&](int peer) -> bool {
    if (!has_begun_the_same(peer)) return false;
    PeerChannel& channel = channel_of(peer);
    if (channel.advance(operation_)) ranks_->ring();
    if (std::exchange(looked_at_[peer], channel.ended()) == channel.ended()) return are_over_[peer];
    are_over_[peer] = std::all_of(messages.begin(), messages.end(), [&](const auto& message) {
      const auto& own = static_cast<const OwnMessage&>(*message);
      return own.peer() != peer || own.is_over();
    });
    return are_over_[peer];
  });
  messages.clear();
}

void SharedMemoryTransport::wait(Transfer& transfer, int peer) {
  const auto is_over = [&](int) {
    advance_all();
    has_begun_the_same(peer);
    return transfer.done;
  };
  const auto is_aborted = [&] { return transfer.aborted.load(); };
  if (ranks_->wait_unless({&peer, 1}, purpose_, is_over, is_aborted)) return;
  transfer.aborted = false;
  throw TransportFailure(fmt::format("the wait for rank {} was aborted", ranks_->name_of(peer)), peer);
}

// Also what other peers wait for in their turn.
void SharedMemoryTransport::advance_all() {
  bool changed = false;
  for (const auto& channel : channels_) changed |= channel && channel->advance(operation_);
  if (changed) ranks_->ring();
}

bool SharedMemoryTransport::has_begun_the_same(int peer) {
  if (compared_[peer] == operation_) return true;
  if (begun_[peer]->number.get() < operation_) return false;
  check_same(peer);
  compared_[peer] = operation_;
  return true;
}

void SharedMemoryTransport::check_same(int peer) const {
  const size_t place = operation_ % 2;
  const BegunOperation &theirs = begun_[peer]->latest[place], &own = begun_[rank()]->latest[place];
  if (theirs.bytes == own.bytes && purpose_ == theirs.purpose) return;
  auto described = [&](const BegunOperation& operation) {
    return theirs.bytes == own.bytes ? operation.purpose
                                     : fmt::format("{} with {} bytes", operation.purpose, operation.bytes);
  };
  throw WaitFailure(
      WaitFailure::Kind::Diverged,
      divergence_text({ranks_->name_of(peer), described(theirs)}, {ranks_->name_of(rank()), described(own)},
                      fmt::format(" (operation {} of this group)", operation_)),
      peer);
}

}  // namespace fsdp::collectives::shm
