#include "collectives/shm/transport.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

#include "base/rank_names.h"
#include "collectives/divergence.h"

namespace fsdp::collectives::shm {

namespace {

// The ring that a rank shares with all peers, and the rings to one peer each together: their bytes, within limits.
constexpr size_t kSharedRingBytes = size_t{512} << 10;
constexpr size_t kRingsBytes = size_t{512} << 10, kLeastRingBytes = size_t{16} << 10;

// A shorter message is not lent.
constexpr size_t kLeastLoanBytes = size_t{64} << 10;

// A sender that asks so often whether its message is over does nothing but wait for it.
constexpr int kAsksOfAWait = 100;

// In a wait for a peer that has not begun the operation.
constexpr uint32_t kAsksPerLook = 8;

constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();

size_t capacity_for(int ranks) {
  const int peers = std::max(ranks - 1, 1);
  return std::max(std::bit_floor(kRingsBytes / static_cast<size_t>(peers)), kLeastRingBytes);
}

// The memory that one rank writes: its operations, the shared ring, and, for each peer in the order of their numbers, a
// ring and its loans.
struct Layout {
  explicit Layout(int ranks)
      : peers(ranks - 1),
        capacity(capacity_for(ranks)),
        rings(shared + bytes_of_ring(kSharedRingBytes, peers)),
        bytes(ring(peers)) {}
  size_t ring(int place) const { return rings + place * (bytes_of_ring(capacity, 1) + bytes_of_loans()); }
  size_t loans(int place) const { return ring(place) + bytes_of_ring(capacity, 1); }

  int peers;
  size_t capacity;
  size_t shared = sizeof(BegunOperations);
  size_t rings;
  size_t bytes;
};

int place_among_peers(int rank, int of) { return rank < of ? rank : rank - 1; }

constexpr int kAllPeers = -1;

}  // namespace

class SharedMemoryTransport::OwnMessage final : public Message {
 public:
  OwnMessage(SharedMemoryTransport& transport, MessageWriter& writer, int peer)
      : transport_(transport), writer_(&writer), peer_(peer) {}
  OwnMessage(SharedMemoryTransport& transport, MessageReader& reader, int peer)
      : transport_(transport), reader_(&reader), peer_(peer) {}
  ~OwnMessage() override {
    transport_.place_.follow();
    if (is_between_two(transfer_.frame.tag)) transport_.place_.remove_message();
    if (transfer_.done) return;
    writer_ ? writer_->give_up(transfer_) : reader_->give_up(transfer_);
  }
  void wait() override { transport_.wait(*this, transport_.purpose_); }
  void abort() override { transfer_.aborted = true; }
  Transfer& transfer() { return transfer_; }
  int peer() const { return peer_; }
  bool is_over() override {
    transport_.place_.follow();
    if (!transfer_.done) transport_.pump();
    if (!transfer_.done && ++asks_ == kAsksOfAWait) await();
    return transfer_.done || transport_.failure_;
  }
  bool is_done() const { return transfer_.done; }
  // This rank does nothing but wait for it.
  void await() {
    if (writer_ && writer_->await(transfer_)) transport_.ranks_->ring();
  }

 private:
  SharedMemoryTransport& transport_;
  Transfer transfer_;
  int asks_ = 0;
  MessageWriter* writer_ = nullptr;
  MessageReader* reader_ = nullptr;
  int peer_;  // or kAllPeers
};

// While it lives, this thread waits for messages, and moves them by itself.
class SharedMemoryTransport::OwnWait {
 public:
  explicit OwnWait(SharedMemoryTransport& transport) : transport_(transport) {
    transport.place_.follow();
    transport.waits_ = true;
  }
  ~OwnWait() { transport_.waits_ = false; }
  OwnWait(const OwnWait&) = delete;
  OwnWait& operator=(const OwnWait&) = delete;

 private:
  SharedMemoryTransport& transport_;
};

size_t SharedMemoryTransport::bytes_for(int ranks) { return Layout(ranks).bytes; }

void SharedMemoryTransport::prepare(char* memory, int ranks) {
  const Layout layout(ranks);
  new (memory) BegunOperations;
  prepare_ring(memory + layout.shared, layout.peers);
  for (int place = 0; place < layout.peers; ++place) {
    prepare_ring(memory + layout.ring(place), 1);
    prepare_loans(memory + layout.loans(place));
  }
}

SharedMemoryTransport::SharedMemoryTransport(Ranks& ranks, const std::vector<char*>& memory, Lending lending)
    : ranks_(&ranks),
      lending_(std::move(lending)),
      shared_(RingWriter(memory[rank()] + Layout(size()).shared, kSharedRingBytes, /*readers=*/size() - 1)) {
  const Layout layout(size());
  for (char* each : memory) begun_.push_back(reinterpret_cast<BegunOperations*>(each));
  channels_.resize(size());
  compared_.resize(size());
  const auto ring = [&](int from, int to) { return memory[from] + layout.ring(place_among_peers(to, from)); };
  const auto loans = [&](int from, int to) { return memory[from] + layout.loans(place_among_peers(to, from)); };
  for (int peer : peers()) {
    std::optional<LoanReader> borrowed;
    if (lending_.is_on()) borrowed.emplace(Borrower(loans(peer, rank()), lending_.peers[peer]));
    const Lender lender = lending_.is_on() ? Lender(loans(rank(), peer), kLeastLoanBytes) : Lender();
    channels_[peer] = std::make_unique<Channel>(Channel{
        .out = MessageWriter(RingWriter(ring(rank(), peer), layout.capacity), lender),
        .in = MessageReader(RingReader(ring(peer, rank()), layout.capacity), std::move(borrowed)),
        .shared = MessageReader(
            RingReader(memory[peer] + layout.shared, kSharedRingBytes, layout.peers, place_among_peers(rank(), peer))),
    });
  }
}

std::unique_ptr<Message> SharedMemoryTransport::begin(MessageWriter& writer, const void* bytes, size_t size, int peer,
                                                      int tag) {
  auto message = std::make_unique<OwnMessage>(*this, writer, peer);
  place_.follow();
  if (is_between_two(tag)) {
    place_.add_message();
    message->transfer().may_be_lent = true;
  }
  writer.send(message->transfer(), {operation_of(tag), size, tag}, static_cast<const char*>(bytes));
  if (writer.advance()) ranks_->ring();
  return message;
}

std::unique_ptr<Message> SharedMemoryTransport::begin(MessageReader& reader, void* bytes, size_t size, int peer,
                                                      int tag) {
  auto message = std::make_unique<OwnMessage>(*this, reader, peer);
  place_.follow();
  if (is_between_two(tag)) place_.add_message();
  reader.receive(message->transfer(), {operation_of(tag), size, tag}, static_cast<char*>(bytes));
  return message;
}

std::unique_ptr<Message> SharedMemoryTransport::send(const void* bytes, size_t size, int peer, int tag) {
  return begin(channels_[peer]->out, bytes, size, peer, tag);
}

std::unique_ptr<Message> SharedMemoryTransport::receive(void* bytes, size_t size, int peer, int tag) {
  return begin(channels_[peer]->in, bytes, size, peer, tag);
}

void SharedMemoryTransport::share(const void* bytes, size_t size, int tag, Messages& messages) {
  messages.push_back(begin(shared_, bytes, size, kAllPeers, tag));
}

std::unique_ptr<Message> SharedMemoryTransport::receive_shared(void* bytes, size_t size, int peer, int tag) {
  return begin(channels_[peer]->shared, bytes, size, peer, tag);
}

void SharedMemoryTransport::begin_operation(const std::string& purpose, size_t bytes) {
  place_.follow();
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
// and sends nothing of it. But it may wait for a message between two ranks first, so it is looked at now and then.
void SharedMemoryTransport::wait_all(Messages& messages) {
  const OwnWait waits(*this);
  for (const auto& message : messages) static_cast<OwnMessage&>(*message).await();
  looked_at_.assign(size(), kNever);
  are_over_.assign(size(), false);
  const auto are_over = [&](int peer) {
    const Channel& channel = *channels_[peer];
    const uint64_t ended = channel.out.ended() + channel.in.ended() + channel.shared.ended();
    if (std::exchange(looked_at_[peer], ended) == ended) return bool{are_over_[peer]};
    are_over_[peer] = std::all_of(messages.begin(), messages.end(), [&](const auto& message) {
      const auto& own = static_cast<const OwnMessage&>(*message);
      return own.peer() != peer || own.is_done();
    });
    return bool{are_over_[peer]};
  };
  uint32_t asks = 0;
  do {
    ranks_->wait(ranks_->peers(), purpose_, [&](int peer) {
      const bool has_begun = has_begun_the_same(peer);
      const bool may_move = has_begun || place_.has_messages() || ++asks % kAsksPerLook == 0;
      if (may_move && advance(*channels_[peer])) ranks_->ring();
      return has_begun && are_over(peer) && has_taken_shared(peer);
    });
  } while (shared_.has_unsent());
  messages.clear();
}

void SharedMemoryTransport::wait_for(const std::unique_ptr<Message>& message, const std::string& purpose) {
  wait(static_cast<OwnMessage&>(*message), purpose);
}

void SharedMemoryTransport::wait(OwnMessage& message, const std::string& purpose) {
  const OwnWait waits(*this);
  message.await();
  Transfer& transfer = message.transfer();
  const int peer = message.peer();
  const auto is_over = [&](int asked) {
    advance_all();
    has_begun_the_same(asked);
    return transfer.done || (peer == kAllPeers && has_taken_shared(asked));
  };
  const auto is_aborted = [&] { return transfer.aborted.load(); };
  const std::vector<int> awaited = peer == kAllPeers ? ranks_->peers() : std::vector<int>{peer};
  while (!transfer.done) {
    if (ranks_->wait_unless(awaited, purpose, is_over, is_aborted)) continue;
    transfer.aborted = false;
    const int missing = ranks_->missing().front();
    throw TransportFailure(fmt::format("the wait for {} was aborted", text_of_rank(ranks_->name_of(missing))), missing);
  }
}

// True if this rank has nothing unsent for all peers, or the peer has taken all that is in the ring, so that another
// one holds it up. It may become false again.
bool SharedMemoryTransport::has_taken_shared(int peer) const {
  return !shared_.has_unsent() || shared_.is_read_by(place_among_peers(peer, rank()));
}

// Returns whether the peers can see a change.
bool SharedMemoryTransport::advance(Channel& channel) {
  if (failure_) std::rethrow_exception(failure_);
  bool changed = shared_.advance();
  changed |= channel.out.advance();
  changed |= channel.in.advance(operation_);
  changed |= channel.shared.advance(operation_);
  return changed;
}

// Also what other peers wait for in their turn.
bool SharedMemoryTransport::advance_all() {
  bool changed = false;
  for (const auto& channel : channels_) changed |= channel && advance(*channel);
  if (changed) ranks_->ring();
  return changed;
}

bool SharedMemoryTransport::pump() noexcept {
  if (waits_ || failure_) return false;
  try {
    return advance_all();
  } catch (...) {
    failure_ = std::current_exception();
    return false;
  }
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
  if (theirs.bytes == own.bytes && is_same_operation(purpose_, theirs.purpose)) return;
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
