// Messages of which only a frame goes through a ring: the sender lends the bytes, and the receiver reads them where
// they are (process_memory.h).
//
// A sender has places for its loans to one peer, in memory that both have mapped. It lends a free place, and the
// receiver sets it free when it has the bytes. A sender that needs its memory earlier withdraws the loan, and waits for
// no one: a receiver that is reading finds the loan withdrawn after its read, and what it has read is no message. A
// killed sender cannot withdraw, so each read proves that the process is still the same one.
//
// The receiver refuses a loan, or the rest of it, if the system refuses the read, or if the sender waits: two ranks
// copy faster through the ring than one copies alone. Then the bytes follow through the ring.
//
//   Free -> Out [-> Awaited] -> Free                  lent, [the sender waits,] read
//           Out or Awaited   -> Refused -> Free       the bytes follow, then the receiver has found them
//           Out or Awaited   -> Withdrawn -> Free     the receiver has noticed
//
// One thread at a time on each side. Knows neither tensors nor LibTorch.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "collectives/shm/process_memory.h"

namespace fsdp::collectives::shm {

inline constexpr int kMostLoans = 64;  // at a time, from one rank to another

// A place, in the sender's memory.
struct Loan {
  enum class State : uint32_t { Free, Out, Awaited, Refused, Withdrawn };

  std::atomic<State> state{State::Free};
  uint64_t address = 0;  // written before the state says so
  uint64_t taken = 0;    // bytes that the receiver has read; written before it refuses the rest
};

constexpr size_t bytes_of_loans() { return kMostLoans * sizeof(Loan); }
void prepare_loans(char* memory);

class Lender {
 public:
  Lender() = default;  // lends nothing
  // `memory` is prepared. Messages of fewer bytes are not lent.
  Lender(char* memory, size_t least_bytes) : loans_(reinterpret_cast<Loan*>(memory)), least_bytes_(least_bytes) {}

  // The number of the loan; none for a short message, or where all places are taken.
  std::optional<int> lend(const char* from, size_t bytes);
  // The receiver has the bytes. Asked until it is true, and not again.
  bool is_back(int loan) const { return state(loan) == Loan::State::Free; }
  bool is_refused(int loan) const { return state(loan) == Loan::State::Refused; }
  // The bytes of a refused loan that the receiver has read all the same.
  size_t taken(int loan) const { return loans_[loan].taken; }
  // The sender waits for the loan. Returns whether that is new to the receiver.
  bool await(int loan);
  // The receiver reads the bytes no more, or does not count what it reads.
  void withdraw(int loan);

 private:
  Loan::State state(int loan) const { return loans_[loan].state.load(); }

  Loan* loans_ = nullptr;
  size_t least_bytes_ = 0;
};

class Borrower {
 public:
  // `memory` is the sender's.
  Borrower(char* memory, const ProcessMemory& sender) : loans_(reinterpret_cast<Loan*>(memory)), sender_(sender) {}

  bool is_awaited(int loan) const { return loans_[loan].state.load() == Loan::State::Awaited; }
  // Reads bytes of the loan, from `offset` on.
  ProcessMemory::Result read(int loan, size_t offset, void* to, size_t bytes) const {
    return sender_.read(to, loans_[loan].address + offset, bytes);
  }
  // False if the loan was withdrawn: what was read is no message. The loan is over.
  bool give_back(int loan) { return end(loan, Loan::State::Free); }
  // As above. The bytes behind the first `taken` follow through the ring, until which the place is taken.
  bool refuse(int loan, size_t taken) {
    loans_[loan].taken = taken;
    return end(loan, Loan::State::Refused);
  }
  // They have come.
  void forget(int loan) { loans_[loan].state = Loan::State::Free; }

 private:
  bool end(int loan, Loan::State state);

  Loan* loans_;
  ProcessMemory sender_;
};

}  // namespace fsdp::collectives::shm
