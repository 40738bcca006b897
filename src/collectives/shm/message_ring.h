// Messages through a ring of bytes, without the waiting.
//
// A message is a frame, which describes it, and its bytes. A message longer than the ring goes through it in pieces,
// while both sides call `advance`. If it is lent (loans.h), its frame alone goes through the ring. Frames carry the
// number of the operation that their sender was in. A reader leaves a frame of a later operation than this rank's in
// the ring, and drops a message of an earlier one. A message of no operation is read at any time. Messages that come
// before their `receive` are kept. One thread at a time. Knows neither tensors nor LibTorch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "collectives/shm/loan_reader.h"
#include "collectives/shm/loans.h"
#include "collectives/shm/ring.h"
#include "collectives/shm/transfer.h"

namespace fsdp::collectives::shm {

class MessageWriter {
 public:
  explicit MessageWriter(RingWriter ring, Lender lender = {}) : ring_(ring), lender_(lender) {}

  // Begins `transfer`, which is new. It is done when its bytes are in the ring, or the receiver has read them.
  void send(Transfer& transfer, const Frame& frame, const char* from);
  // Forgets the transfer and its bytes. The message itself goes its way.
  void give_up(const Transfer& transfer);
  // From now on the sender does nothing but wait for it. So a message that is lent comes through the ring after all,
  // and a receiver that is elsewhere in the library takes it into memory. Returns whether a reader can see a change.
  bool await(Transfer& transfer);
  // Writes what can be written now. Returns whether the readers can see a change.
  bool advance() { return (has_unsent() || !lent_.empty()) && write(); }
  bool has_unsent() const { return !sending_.empty(); }
  // True if the reader has taken all that was written so far.
  bool is_read_by(int reader) const { return ring_.is_read_by(reader); }
  uint64_t ended() const { return ended_; }  // how many transfers are done

 private:
  bool write();
  void look_at_loans();
  bool lend(Transfer& transfer);

  RingWriter ring_;
  Lender lender_;
  uint64_t ended_ = 0;
  std::vector<Transfer*> sending_;                   // in their order
  std::vector<Transfer*> lent_;                      // not those whose loans were refused
  std::vector<std::unique_ptr<Transfer>> given_up_;  // in the places of those
  size_t put_ = 0;                                   // bytes of the first of them that are in the ring
  bool has_put_frame_ = false;                       // of that one
};

class MessageReader {
 public:
  // `loans`: of the writer; none: it lends nothing.
  explicit MessageReader(RingReader ring, std::optional<LoanReader> loans = {})
      : ring_(ring), loans_(std::move(loans)) {}

  // Begins `transfer`, which is new, of a message with such a frame. Messages of earlier operations are dropped.
  void receive(Transfer& transfer, const Frame& frame, char* to);
  // Forgets the transfer and its bytes. The message itself is dropped.
  void give_up(const Transfer& transfer);
  // Reads what can be read now, for a rank that is in `operation`. Returns whether the writer can see a change.
  bool advance(uint64_t operation) {
    const bool has_read = (is_in_frame_ || ring_.filled() > 0) && read(operation);
    return (loans_ && loans_->advance()) || has_read;
  }
  uint64_t ended() const { return ended_ + (loans_ ? loans_->ended() : 0); }  // how many transfers are done

 private:
  // A message that came, or is coming, before its `receive`.
  struct Early {
    Transfer transfer;
    std::vector<char> bytes;  // empty while the message is lent

    void make_room() {
      bytes.resize(transfer.frame.size);
      transfer.to = bytes.data();
    }
  };

  bool read(uint64_t operation);
  void find_place(uint64_t operation);
  Transfer* find_awaited();
  Early& add_early();
  void take_loan();
  void end_frame();

  RingReader ring_;
  std::optional<LoanReader> loans_;
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
