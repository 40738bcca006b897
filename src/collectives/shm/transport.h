// Messages between the ranks of a host: a Transport over their shared memory.
//
// Each rank writes a ring of bytes for each peer, and one that all peers read (message_ring.h). A send is over when its
// bytes are in the ring, or went through it. If ranks may read each other's memory, a message between two of them that
// does not fit into the ring is lent (loans.h), and over when the receiver has read it. A rank that begins an operation
// shows it to all peers, and the operation's first `wait_all` returns when each peer has begun the same one. Ranks that
// begin different ones throw WaitFailure, each of them, with one text. Waits are those of `Ranks`. While messages
// between two ranks are under way, the thread that used this last moves them in its other waits, too (pumps.h). One
// thread at a time, but for `abort`; it outlives its messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "collectives/pumps.h"
#include "collectives/shm/lending.h"
#include "collectives/shm/message_ring.h"
#include "collectives/shm/ranks.h"
#include "collectives/tags.h"
#include "collectives/transport.h"

namespace fsdp::collectives::shm {

struct BegunOperation {
  uint64_t bytes = 0;
  char purpose[kPurposeBytes] = {};
};

// The operations that a rank has begun, as its peers see them.
struct BegunOperations {
  Counter number;  // of the last one
  // That one, and the one before: no rank is two operations ahead. Written before `number` says so.
  BegunOperation latest[2];
};

class SharedMemoryTransport final : public Transport, private Pump {
 public:
  // The memory that one rank writes.
  static size_t bytes_for(int ranks);
  // Prepares it: zeros. Each rank prepares its own, before any peer's transport sees it.
  static void prepare(char* memory, int ranks);
  // `memory`: by rank, what it writes. Both outlive this.
  SharedMemoryTransport(Ranks& ranks, const std::vector<char*>& memory, Lending lending = {});

  int rank() const override { return ranks_->rank(); }
  int size() const override { return ranks_->size(); }
  int name_of(int rank) const override { return ranks_->name_of(rank); }
  std::unique_ptr<Message> send(const void* bytes, size_t size, int peer, int tag) override;
  std::unique_ptr<Message> receive(void* bytes, size_t size, int peer, int tag) override;
  void share(const void* bytes, size_t size, int tag, Messages& messages) override;
  std::unique_ptr<Message> receive_shared(void* bytes, size_t size, int peer, int tag) override;
  int64_t chunk_bytes() const override { return 128 << 10; }  // which stay in a core's cache
  bool shares_once() const override { return true; }
  void begin_operation(const std::string& purpose, size_t bytes) override;
  bool begins_together() const override { return true; }
  void wait_all(Messages& messages) override;
  void wait_for(const std::unique_ptr<Message>& message, const std::string& purpose) override;

 private:
  class OwnMessage;
  class OwnWait;

  struct Channel {
    MessageWriter out;
    MessageReader in, shared;
  };

  uint64_t operation_of(int tag) const { return is_between_two(tag) ? Frame::kNoOperation : operation_; }
  std::unique_ptr<Message> begin(MessageWriter& writer, const void* bytes, size_t size, int peer, int tag);
  std::unique_ptr<Message> begin(MessageReader& reader, void* bytes, size_t size, int peer, int tag);
  void wait(OwnMessage& message, const std::string& purpose);
  bool has_taken_shared(int peer) const;
  bool advance(Channel& channel);
  bool advance_all();
  bool pump() noexcept override;
  // A peer's operation is compared with this rank's once.
  bool has_begun_the_same(int peer);
  void check_same(int peer) const;

  Ranks* ranks_;
  Lending lending_;
  MessageWriter shared_;
  std::vector<std::unique_ptr<Channel>> channels_;  // by rank; null for this one
  std::vector<BegunOperations*> begun_;             // by rank
  uint64_t operation_ = 0;
  std::vector<uint64_t> compared_;  // by rank: the operation that was compared last
  // In wait_all, by rank: whether its messages are over, and how many transfers had ended when they were looked at.
  std::vector<bool> are_over_;
  std::vector<uint64_t> looked_at_;
  std::string purpose_ = "exchanges messages";
  bool waits_ = false;          // which moves messages by itself
  std::exception_ptr failure_;  // of `pump`: nothing moves after it
  PumpPlace place_{*this};      // of messages between two ranks. The last member: the first that ends
};

}  // namespace fsdp::collectives::shm
