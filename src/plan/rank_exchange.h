// A simulated rank's side of the exchange with the other ranks of its model: it says when it did something, and waits
// for the others in its turn.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "plan/exchange_log.h"
#include "plan/rank_turns.h"
#include "schedule/performer.h"

namespace fsdp::plan {

class RankExchange {
 public:
  using Deed = ExchangeLog::Deed;
  // The ranks that are meant: those with the same copy of the state, or all of the model.
  enum class Who { Sharers, Everyone };

  // `turn` is the rank's number among all simulated ranks. Turns and log outlive it.
  RankExchange(const schedule::Facts& facts, RankTurns& turns, int turn, ExchangeLog& log)
      : turns_(turns),
        turn_(turn),
        log_(log),
        stands_for_all_(log.ranks() == 1),
        own_(stands_for_all_ ? 0 : facts.rank),
        sharers_(stands_for_all_ ? Members{1} : Members(facts.sharers)),
        everyone_(log.ranks(), 1) {}

  // Returns how often this rank has done it.
  size_t add(Deed deed, schedule::UnitId unit, double time) { return log_.add(own_, deed, unit, time); }
  size_t count(Deed deed, schedule::UnitId unit) const { return log_.count(own_, deed, unit); }
  bool have_all(Deed deed, schedule::UnitId unit, size_t count, Who who) const {
    return log_.all_have(deed, unit, count, members(who));
  }
  // Waits until all have done it so often. False, if it may stall: not before this rank goes on.
  bool await(Deed deed, schedule::UnitId unit, size_t count, Who who, const char* why, bool may_stall = false) {
    return turns_.wait(
        turn_, why, [&] { return have_all(deed, unit, count, who); }, may_stall);
  }
  // The time of the last of these.
  double latest(Deed deed, schedule::UnitId unit, size_t count, Who who) const {
    return log_.latest(deed, unit, count, members(who));
  }

  // Says it to all. Returns every rank's message of this number, by rank. A rank that stands for all hears itself.
  std::vector<ExchangeLog::Message> say(ExchangeLog::Message message, int ranks) {
    const size_t number = log_.say(own_, std::move(message));
    turns_.wait(turn_, "a message of all ranks", [&] { return log_.all_said(number); });
    std::vector<ExchangeLog::Message> all;
    for (int rank = 0; rank < ranks; ++rank) all.push_back(log_.message(stands_for_all_ ? 0 : rank, number - 1));
    return all;
  }

 private:
  using Members = ExchangeLog::Members;
  const Members& members(Who who) const { return who == Who::Sharers ? sharers_ : everyone_; }

  RankTurns& turns_;
  const int turn_;
  ExchangeLog& log_;
  const bool stands_for_all_;
  const int own_;  // its number in the log
  const Members sharers_, everyone_;
};

}  // namespace fsdp::plan
