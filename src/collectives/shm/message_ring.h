// Messages through a ring of bytes, without the waiting.
//
// A message is a frame, which describes it, and its bytes. A message longer than the ring goes through it in pieces,
// while both sides call `advance`. Frames carry the number of the operation that their sender was in. A reader leaves a
// frame of a later operation than this rank's in the ring, and drops a message of an earlier one. A message of no
// operation is read at any time. Messages that come before their `receive` are kept. One thread at a time. Knows
// neither tensors nor LibTorch.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "collectives/shm/ring.h"

namespace fsdp::collectives::shm {

struct Frame {
  static constexpr uint64_t kNoOperation = 0;

  uint64_t operation = kNoOperation;
  uint64_t size = 0;  // of the bytes that follow
  int64_t tag = 0;

  bool is_before(uint64_t now) const { return operation != kNoOperation && operation < now; }
};

// One end of a message: the caller's, who leaves it where it is until it is done or given up.
struct Transfer {
  Frame frame = {};
  const char* from = nullptr;  // of a message that is sent; null: its bytes may have any value
  char* to = nullptr;          // of one that is received; null: its bytes are dropped
  std::atomic<bool> aborted = false;
  bool done = false;
};

class MessageWriter {
 public:
  explicit MessageWriter(RingWriter ring) : ring_(ring) {}

  // Begins `transfer`, which is new.
  void send(Transfer& transfer, const Frame& frame, const char* from);
  // Forgets the transfer and its bytes. The message itself goes its way.
  void give_up(const Transfer& transfer);
  // Writes what can be written now. Returns whether the readers can see a change.
  bool advance() { return has_unsent() && write(); }
  bool has_unsent() const { return !sending_.empty(); }
  // True if the reader has taken all that was written so far.
  bool is_read_by(int reader) const { return ring_.is_read_by(reader); }
  uint64_t ended() const { return ended_; }  // how many transfers are done

 private:
  bool write();

  RingWriter ring_;
  uint64_t ended_ = 0;
  std::vector<Transfer*> sending_;                   // in their order
  std::vector<std::unique_ptr<Transfer>> given_up_;  // in the places of those
  size_t put_ = 0;                                   // bytes of the first of them that are in the ring
  bool has_put_frame_ = false;                       // of that one
};

class MessageReader {
 public:
  explicit MessageReader(RingReader ring) : ring_(ring) {}

  // Begins `transfer`, which is new, of a message with such a frame. Messages of earlier operations are dropped.
  void receive(Transfer& transfer, const Frame& frame, char* to);
  // Forgets the transfer and its bytes. The message itself is dropped.
  void give_up(const Transfer& transfer);
  // Reads what can be read now, for a rank that is in `operation`. Returns whether the writer can see a change.
  bool advance(uint64_t operation) { return (is_in_frame_ || ring_.filled() > 0) && read(operation); }
  uint64_t ended() const { return ended_; }  // how many transfers are done

 private:
  // A message that came, or is coming, before its `receive`.
  struct Early {
    Transfer transfer;
    std::vector<char> bytes;
  };

  bool read(uint64_t operation);
  void find_place(uint64_t operation);
  void end_frame();

  RingReader ring_;
  uint64_t ended_ = 0;
  std::vector<Transfer*> awaited_;
  std::vector<std::unique_ptr<Early>> early_;
  std::vector<std::unique_ptr<Transfer>> given_up_;  // in the places of those
  // The frame that is being read.
  bool is_in_frame_ = false, has_place_ = false;
  Frame frame_;
  size_t taken_ = 0;
  Transfer* into_ = nullptr;  // null: its bytes are dropped
};

}  // namespace fsdp::collectives::shm
