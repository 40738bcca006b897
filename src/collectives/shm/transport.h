// Messages between the ranks of a host: a Transport over their shared memory.
//
// Each rank writes a ring of bytes for each peer (peer_channel.h). A send is over when its bytes are in the ring, or
// went through it. A rank that begins an operation announces it to every peer, and the operation's first `wait_all`
// returns when each peer has begun the same one. Ranks that begin different ones throw WaitFailure, each of them, with
// one text. Waits are those of `Ranks`. One thread at a time, but for `abort`; it outlives its messages.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "collectives/shm/peer_channel.h"
#include "collectives/shm/ranks.h"
#include "collectives/transport.h"

namespace fsdp::collectives::shm {

class SharedMemoryTransport final : public Transport {
 public:
  // The memory of one rank's rings to its peers.
  static size_t bytes_of_rings(int ranks);
  // Makes empty rings in zeroed memory. Each rank makes its own, before any peer's transport sees them.
  static void make_rings(char* memory, int ranks);
  // `rings`: by rank, the memory of the rings that it writes. Both outlive this.
  SharedMemoryTransport(Ranks& ranks, const std::vector<char*>& rings);

  int rank() const override { return ranks_->rank(); }
  int size() const override { return ranks_->size(); }
  std::unique_ptr<Message> send(const void* bytes, size_t size, int peer, int tag) override;
  std::unique_ptr<Message> receive(void* bytes, size_t size, int peer, int tag) override;
  void begin_operation(const std::string& purpose, size_t bytes) override;
  void wait_all(Messages& messages) override;

 private:
  class OwnMessage;

  PeerChannel& channel_of(int peer) { return *channels_[peer]; }
  void wait(Transfer& transfer, int peer);
  void advance(int peer);
  bool has_begun(int peer);
  void check_same(int peer);

  Ranks* ranks_;
  std::vector<std::unique_ptr<PeerChannel>> channels_;  // by rank; null for this one
  Announcement own_{0, 0, "exchanges messages"};
};

}  // namespace fsdp::collectives::shm
