#include "collectives/shm/transport.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <new>
#include <utility>

#include "collectives/divergence.h"

namespace fsdp::collectives::shm {

namespace {

// The rings of one rank have so many bytes together, within the limits of one ring.
constexpr size_t kRingsBytes = size_t{1} << 20;
constexpr size_t kLeastRingBytes = size_t{16} << 10, kMostRingBytes = size_t{256} << 10;

size_t capacity_for(int ranks) {
  const size_t share = std::bit_floor(kRingsBytes / static_cast<size_t>(std::max(ranks - 1, 1)));
  return std::clamp(share, kLeastRingBytes, kMostRingBytes);
}

char* ring_to(int peer, char* rings, int ranks) { return rings + peer * bytes_of_ring(capacity_for(ranks)); }

}  // namespace

// Destroying it leaves the rest of its bytes alone.
class SharedMemoryTransport::OwnMessage final : public Message {
 public:
  OwnMessage(SharedMemoryTransport& transport, std::shared_ptr<Transfer> transfer, int peer)
      : transport_(transport), transfer_(std::move(transfer)), peer_(peer) {}
  ~OwnMessage() override {
    transfer_->from = nullptr;
    transfer_->to = nullptr;
  }
  void wait() override { transport_.wait(*transfer_, peer_); }
  void abort() override { transfer_->aborted = true; }
  int peer() const { return peer_; }
  bool is_over() const { return transfer_->done; }

 private:
  SharedMemoryTransport& transport_;
  std::shared_ptr<Transfer> transfer_;
  int peer_;
};

size_t SharedMemoryTransport::bytes_of_rings(int ranks) { return ranks * bytes_of_ring(capacity_for(ranks)); }

void SharedMemoryTransport::make_rings(char* memory, int ranks) {
  for (int peer = 0; peer < ranks; ++peer) new (ring_to(peer, memory, ranks)) RingCounters;
}

SharedMemoryTransport::SharedMemoryTransport(Ranks& ranks, const std::vector<char*>& rings) : ranks_(&ranks) {
  const size_t capacity = capacity_for(size());
  channels_.resize(size());
  for (int peer : peers()) {
    channels_[peer] = std::make_unique<PeerChannel>(RingWriter(ring_to(peer, rings[rank()], size()), capacity),
                                                    RingReader(ring_to(rank(), rings[peer], size()), capacity));
  }
}

std::unique_ptr<Message> SharedMemoryTransport::send(const void* bytes, size_t size, int peer, int tag) {
  const Frame frame{own_.operation, own_.bytes, size, tag};
  auto message =
      std::make_unique<OwnMessage>(*this, channel_of(peer).send(frame, static_cast<const char*>(bytes)), peer);
  if (channel_of(peer).advance(own_.operation)) ranks_->ring();
  return message;
}

std::unique_ptr<Message> SharedMemoryTransport::receive(void* bytes, size_t size, int peer, int tag) {
  return std::make_unique<OwnMessage>(*this, channel_of(peer).receive(tag, static_cast<char*>(bytes), size), peer);
}

void SharedMemoryTransport::begin_operation(const std::string& purpose, size_t bytes) {
  own_ = {own_.operation + 1, bytes, purpose.substr(0, kPurposeBytes - 1)};
  for (int peer : peers()) channel_of(peer).announce(own_);
}

void SharedMemoryTransport::wait_all(Messages& messages) {
  ranks_->wait(ranks_->peers(), own_.purpose, [&](int peer) {
    advance(peer);
    return has_begun(peer) && std::all_of(messages.begin(), messages.end(), [&](const auto& message) {
             const auto& own = static_cast<const OwnMessage&>(*message);
             return own.peer() != peer || own.is_over();
           });
  });
  messages.clear();
}

void SharedMemoryTransport::wait(Transfer& transfer, int peer) {
  const auto is_over = [&](int) {
    advance(peer);
    return transfer.done;
  };
  const auto is_aborted = [&] { return transfer.aborted.load(); };
  if (ranks_->wait_unless({&peer, 1}, own_.purpose, is_over, is_aborted)) return;
  transfer.aborted = false;
  throw TransportFailure(fmt::format("the wait for rank {} was aborted", ranks_->name_of(peer)), peer);
}

// Also what other peers wait for in their turn.
void SharedMemoryTransport::advance(int peer) {
  bool changed = channel_of(peer).advance(own_.operation);
  for (const auto& channel : channels_) {
    if (channel && channel->has_unsent()) changed |= channel->advance(own_.operation);
  }
  if (changed) ranks_->ring();
  check_same(peer);
}

bool SharedMemoryTransport::has_begun(int peer) { return channel_of(peer).announced().operation == own_.operation; }

void SharedMemoryTransport::check_same(int peer) {
  const Announcement& theirs = channel_of(peer).announced();
  const bool is_of_this = own_.operation > 0 && theirs.operation == own_.operation;
  if (!is_of_this || (theirs.bytes == own_.bytes && theirs.purpose == own_.purpose)) return;
  auto described = [&](const Announcement& announced) {
    return theirs.bytes == own_.bytes ? announced.purpose
                                      : fmt::format("{} with {} bytes", announced.purpose, announced.bytes);
  };
  throw WaitFailure(
      WaitFailure::Kind::Diverged,
      divergence_text({ranks_->name_of(peer), described(theirs)}, {ranks_->name_of(rank()), described(own_)},
                      fmt::format(" (operation {} of this group)", own_.operation)),
      peer);
}

}  // namespace fsdp::collectives::shm
