// The status of a rank, which it posts for the others of its group when a wait is long or something failed: its latest
// operations and its failure. Pure values.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "collectives/world_calls.h"

namespace fsdp::collectives {

// The latest of the operations that every rank of the group begins in the same order, in words that follow "rank 1 ":
// "gathers blocks.4".
class History {
 public:
  static constexpr size_t kKept = 64;

  History() = default;
  History(int64_t first, std::deque<std::string> operations) : first_(first), operations_(std::move(operations)) {}

  void add(std::string operation);
  int64_t first() const { return first_; }  // the number of the oldest one that is kept; the very first is number 1
  const std::deque<std::string>& operations() const { return operations_; }
  const std::string& operation(int64_t number) const { return operations_.at(number - first_); }
  int64_t end() const { return first_ + static_cast<int64_t>(operations_.size()); }  // one past the last number

 private:
  int64_t first_ = 1;
  std::deque<std::string> operations_;
};

// The first number at which the two differ. A rank that is behind has a shorter history, which is no difference.
std::optional<int64_t> first_difference(const History& left, const History& right);

struct Failure {
  int rank = 0;  // where it happened, as messages call it
  std::string message;
  bool of_connection = false;  // this rank merely lost another one
};

struct RankStatus {
  History history = {};
  bool waiting = false;  // for long, and still
  std::optional<Failure> failure = std::nullopt;
  std::optional<WorldCall> call = std::nullopt;  // that the rank is in
};

std::string encode(const RankStatus& status);
// None for what `encode` cannot have written.
std::optional<RankStatus> decode(const std::string& text);

}  // namespace fsdp::collectives
