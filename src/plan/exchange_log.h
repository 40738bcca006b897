// All that the simulated ranks of one model have told each other so far, with its times. One rank that stands for all
// is the only one here. A simulated rank uses it in its turn (rank_turns.h).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "schedule/use_order.h"

namespace fsdp::plan {

class ExchangeLog {
 public:
  using UnitId = schedule::UnitId;
  // Things that a rank does to a unit again and again.
  enum class Deed { Gather, Reduce, Publish, Leave };
  // By rank: the ranks that are meant.
  using Members = std::vector<uint8_t>;

  ExchangeLog(int ranks, int units) : times_(ranks, Times(units)), messages_(ranks) {}

  int ranks() const { return static_cast<int>(times_.size()); }
  // Returns how often the rank has done it.
  size_t add(int rank, Deed deed, UnitId unit, double time) {
    auto& times = of(rank, deed, unit);
    times.push_back(time);
    return times.size();
  }
  size_t count(int rank, Deed deed, UnitId unit) const { return of(rank, deed, unit).size(); }
  // Every member has done it so often.
  bool all_have(Deed deed, UnitId unit, size_t count, const Members& members) const {
    for (int rank = 0; rank < ranks(); ++rank) {
      if (members[rank] != 0 && of(rank, deed, unit).size() < count) return false;
    }
    return true;
  }
  // The latest time at which a member did it for this time; 0 for none.
  double latest(Deed deed, UnitId unit, size_t count, const Members& members) const {
    double time = 0;
    for (int rank = 0; rank < ranks() && count > 0; ++rank) {
      if (members[rank] != 0) time = std::max(time, of(rank, deed, unit)[count - 1]);
    }
    return time;
  }

  struct Message {
    std::vector<int64_t> words;
    double time;
  };
  size_t say(int rank, Message message) {
    messages_[rank].push_back(std::move(message));
    return messages_[rank].size();
  }
  bool all_said(size_t count) const {
    return std::ranges::all_of(messages_, [count](const auto& said) { return said.size() >= count; });
  }
  const Message& message(int rank, size_t number) const { return messages_[rank][number]; }

 private:
  static constexpr size_t kDeeds = 4;
  using Times = std::vector<std::array<std::vector<double>, kDeeds>>;  // by unit and deed

  std::vector<double>& of(int rank, Deed deed, UnitId unit) { return times_[rank][unit][static_cast<size_t>(deed)]; }
  const std::vector<double>& of(int rank, Deed deed, UnitId unit) const {
    return times_[rank][unit][static_cast<size_t>(deed)];
  }

  std::vector<Times> times_;                    // by rank
  std::vector<std::vector<Message>> messages_;  // by rank
};

}  // namespace fsdp::plan
