// The loans of one peer that this rank has not given back yet. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "collectives/shm/loans.h"
#include "collectives/shm/transfer.h"

namespace fsdp::collectives::shm {

class LoanReader {
 public:
  explicit LoanReader(const Borrower& borrower) : borrower_(borrower) {}

  // A loan's frame has come, which is the transfer's. It is read into the transfer.
  void add(Transfer& into) { loans_.push_back({.into = &into}); }
  // As above, but no receive of it has begun: only its frame is kept.
  void keep(Transfer& early) { loans_.push_back({.into = &early, .is_kept = true}); }
  // Puts `to` in the place of `from`, if that has a loan, which is read from its beginning.
  void move(const Transfer& from, Transfer& to);
  // The bytes of a refused loan come: returns where to.
  Transfer* take_refused(int loan);

  // Reads what can be read now, a piece of each loan. Refuses those whose senders wait. Returns whether the sender can
  // see a change.
  bool advance();
  uint64_t ended() const { return ended_; }  // how many transfers are done

 private:
  struct Borrowed {
    Transfer* into;
    bool is_kept = false;
    size_t taken = 0;
    bool is_refused = false;

    int loan() const { return into->frame.loan; }
  };
  // A loan is over, or has changed for the sender as well.
  struct Step {
    bool is_over = false;
    bool has_changed = false;
  };

  Step advance(Borrowed& borrowed);
  Step read_piece(Borrowed& borrowed);
  Step refuse(Borrowed& borrowed);
  Step give_back(Borrowed& borrowed);

  Borrower borrower_;
  std::vector<Borrowed> loans_;  // in the order of their frames
  uint64_t ended_ = 0;
};

}  // namespace fsdp::collectives::shm
