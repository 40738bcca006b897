// Messages between this rank and one peer, through a ring in each direction, without the waiting.
//
// A message is a frame, which describes it, and its bytes. A message longer than the ring goes through it in pieces,
// while both ranks call `advance`. Frames carry the number of the operation that their sender was in. The channel
// leaves a frame of a later operation than this rank's in the ring, and drops a message of an earlier one. Messages
// that come before their `receive` are kept. One thread at a time. Knows neither tensors nor LibTorch.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "collectives/shm/ring.h"

namespace fsdp::collectives::shm {

struct Frame {
  uint64_t operation = 0;
  uint64_t size = 0;  // of the bytes that follow
  int64_t tag = 0;
};

// One end of a message. The channel shares it with the caller.
struct Transfer {
  Frame frame = {};
  const char* from = nullptr;   // of a message that is sent; null: its bytes may have any value
  char* to = nullptr;           // of one that is received; null: its bytes are dropped
  std::vector<char> kept = {};  // the bytes themselves, if they have no other place
  std::atomic<bool> aborted = false;
  bool done = false;
};

class PeerChannel {
 public:
  PeerChannel(RingWriter out, RingReader in) : out_(out), in_(in) {}

  std::shared_ptr<Transfer> send(const Frame& frame, const char* from);
  std::shared_ptr<Transfer> receive(int tag, char* to, size_t size);

  // Moves what can be moved now, for a rank that is in `operation`. Returns whether the peer can see a change.
  bool advance(uint64_t operation) { return (has_unsent() || has_unread()) && advance_both(operation); }
  bool has_unsent() const { return unsent_ > 0; }
  uint64_t ended() const { return ended_; }  // how many transfers are done

 private:
  bool has_unread() const { return is_in_frame_ || in_.filled() > 0; }
  bool advance_both(uint64_t operation);
  bool write();
  bool read(uint64_t operation);
  void find_place(uint64_t operation);
  void end_frame();

  RingWriter out_;
  RingReader in_;
  uint64_t ended_ = 0;
  size_t unsent_ = 0;
  std::deque<std::shared_ptr<Transfer>> sending_;  // so many
  size_t put_ = 0;                                 // bytes of the first of them that are in the ring
  bool has_put_frame_ = false;                     // of that one
  std::vector<std::shared_ptr<Transfer>> awaited_;
  std::vector<std::shared_ptr<Transfer>> early_;  // came, or are coming, before their `receive`
  // The frame that is being read.
  bool is_in_frame_ = false, has_place_ = false;
  Frame frame_;
  size_t taken_ = 0;
  std::shared_ptr<Transfer> into_;  // null: its bytes are dropped
};

}  // namespace fsdp::collectives::shm
