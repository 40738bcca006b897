// Rounds in which the ranks of a group exchange a few bytes, as the group and its units are made. In each round every
// rank puts something into its mailbox and reads the others'.
//
// Every rank says with each round what it takes the operation for; ranks that take it for different ones have diverged,
// and each of them finds out as soon as the other has arrived. A mailbox can be read until this rank begins the next
// round: there are two, used in turn, and no rank is two rounds ahead.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <type_traits>
#include <vector>

#include "collectives/shm/ranks.h"

namespace fsdp::collectives::shm {

class Exchange {
 public:
  explicit Exchange(Ranks& ranks) : ranks_(&ranks) {}

  // `purpose` follows "rank 1 " in messages; it and `bytes` are the same on every rank.
  void begin(const std::string& purpose, uint64_t bytes);
  // Puts what `write` writes, at most kMailboxBytes, into the own mailbox, and returns when every rank has. Throws
  // WaitFailure.
  void round(const std::function<void(char* mailbox)>& write);
  void round() {
    round([](char*) {});
  }
  const char* mailbox(int rank) const { return round_of(rank).mailbox; }
  // A round: every rank's value, by rank. Plain data.
  template <typename Value>
  std::vector<Value> tell(const Value& own) {
    static_assert(std::is_trivially_copyable_v<Value> && sizeof(Value) <= kMailboxBytes);
    round([&](char* mailbox) { std::memcpy(mailbox, &own, sizeof own); });
    std::vector<Value> all(ranks_->size());
    for (int rank = 0; rank < ranks_->size(); ++rank) std::memcpy(&all[rank], mailbox(rank), sizeof own);
    return all;
  }

 private:
  Round& round_of(int rank) const { return ranks_->control_of(rank).round[number_ % 2]; }
  void check_same(int peer) const;

  Ranks* ranks_;
  uint64_t operation_ = 0;
  uint64_t number_ = 0;  // of the round
  uint64_t bytes_ = 0;
  std::string purpose_;
};

}  // namespace fsdp::collectives::shm
