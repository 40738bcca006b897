#include "collectives/shm/loans.h"

#include <new>

namespace fsdp::collectives::shm {

namespace {

using State = Loan::State;

// From Out or Awaited. False if the other side was first.
bool leave(std::atomic<State>& state, State to) {
  State now = state.load();
  while (now == State::Out || now == State::Awaited) {
    if (state.compare_exchange_weak(now, to)) return true;
  }
  return false;
}

}  // namespace

void prepare_loans(char* memory) {
  for (int i = 0; i < kMostLoans; ++i) new (memory + i * sizeof(Loan)) Loan;
}

std::optional<int> Lender::lend(const char* from, size_t bytes) {
  if (loans_ == nullptr || bytes < least_bytes_) return std::nullopt;
  for (int i = 0; i < kMostLoans; ++i) {
    if (state(i) != State::Free) continue;
    loans_[i].address = reinterpret_cast<uint64_t>(from);
    loans_[i].state = State::Out;
    return i;
  }
  return std::nullopt;
}

bool Lender::await(int loan) {
  State out = State::Out;
  return loans_[loan].state.compare_exchange_strong(out, State::Awaited);
}

void Lender::withdraw(int loan) { leave(loans_[loan].state, State::Withdrawn); }

bool Borrower::end(int loan, State state) {
  if (leave(loans_[loan].state, state)) return true;
  forget(loan);  // which was withdrawn
  return false;
}

}  // namespace fsdp::collectives::shm
