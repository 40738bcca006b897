#include "collectives/shm/loan_reader.h"

#include <algorithm>

#include "base/error.h"

namespace fsdp::collectives::shm {

namespace {

// Short enough that other messages go on, and that this rank shows signs of life. At the first piece the receiver may
// not have seen yet that the sender waits.
constexpr size_t kFirstPieceBytes = size_t{16} << 10, kFurtherPieceBytes = size_t{512} << 10;

}  // namespace

void LoanReader::move(const Transfer& from, Transfer& to) {
  const auto found = std::ranges::find(loans_, &from, &Borrowed::into);
  if (found == loans_.end()) return;
  to.frame.loan = from.frame.loan;
  *found = {.into = &to, .is_refused = found->is_refused};
}

Transfer* LoanReader::take_refused(int loan) {
  const auto found = std::ranges::find_if(loans_, [&](const Borrowed& one) { return one.loan() == loan; });
  FSDP_INVARIANT(found != loans_.end() && found->is_refused, "the bytes of loan {} came, which was not refused", loan);
  Transfer* const into = found->into;
  loans_.erase(found);
  borrower_.forget(loan);
  return into;
}

bool LoanReader::advance() {
  bool has_changed = false;
  for (size_t i = 0; i < loans_.size();) {
    const Step step = advance(loans_[i]);
    has_changed |= step.has_changed;
    step.is_over ? static_cast<void>(loans_.erase(loans_.begin() + static_cast<ptrdiff_t>(i))) : static_cast<void>(++i);
  }
  return has_changed;
}

LoanReader::Step LoanReader::advance(Borrowed& borrowed) {
  if (borrowed.is_refused) return {};
  const bool is_dropped = !borrowed.is_kept && borrowed.into->to == nullptr;
  if (is_dropped) return give_back(borrowed);
  if (borrower_.is_awaited(borrowed.loan())) return refuse(borrowed);
  return borrowed.is_kept ? Step() : read_piece(borrowed);
}

LoanReader::Step LoanReader::read_piece(Borrowed& borrowed) {
  using Outcome = ProcessMemory::Outcome;
  const Transfer& into = *borrowed.into;
  const size_t longest = borrowed.taken == 0 ? kFirstPieceBytes : kFurtherPieceBytes;
  const size_t piece = std::min<size_t>(longest, into.frame.size - borrowed.taken);
  const auto [outcome, bytes] = borrower_.read(borrowed.loan(), borrowed.taken, into.to + borrowed.taken, piece);
  if (outcome == Outcome::Gone) return {};  // the wait for the message finds it out
  if (outcome == Outcome::Refused) return refuse(borrowed);
  borrowed.taken += bytes;
  if (borrowed.taken < into.frame.size) return {.has_changed = true};
  return give_back(borrowed);
}

LoanReader::Step LoanReader::refuse(Borrowed& borrowed) {
  borrowed.is_refused = borrower_.refuse(borrowed.loan(), borrowed.taken);
  return {.is_over = !borrowed.is_refused, .has_changed = true};
}

// A message whose loan was withdrawn never comes: the wait for it ends as for any message of that sender.
LoanReader::Step LoanReader::give_back(Borrowed& borrowed) {
  if (borrower_.give_back(borrowed.loan())) {
    borrowed.into->done = true;
    ++ended_;
  }
  return {.is_over = true, .has_changed = true};
}

}  // namespace fsdp::collectives::shm
