#include "plan/rank_turns.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "base/error.h"

namespace fsdp::plan {

void RankTurns::run(const std::function<void(int)>& program) {
  if (ranks_.size() == 1) return program(0);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < static_cast<int>(ranks_.size()); ++rank)
    threads.emplace_back([this, rank, &program] { run_rank(rank, program); });
  for (std::thread& thread : threads) thread.join();
  if (error_) std::rethrow_exception(error_);
}

void RankTurns::run_rank(int rank, const std::function<void(int)>& program) {
  {
    std::unique_lock lock(mutex_);
    ranks_[rank].turn_comes.wait(lock, [&] { return turn_ == rank || error_; });
    if (error_) return;
  }
  try {
    program(rank);
  } catch (...) {
    fail(std::current_exception());
    return;
  }
  const std::lock_guard lock(mutex_);
  ranks_[rank].has_ended = true;
  pass_turn(rank);
}

void RankTurns::fail(std::exception_ptr error) {
  const std::lock_guard lock(mutex_);
  if (!error_) error_ = std::move(error);
  wake_all();
}

void RankTurns::wake_all() {
  for (Rank& rank : ranks_) rank.turn_comes.notify_one();
}

bool RankTurns::wait(int rank, const char* why, const std::function<bool()>& ready, bool may_stall) {
  if (ready()) return true;
  std::unique_lock lock(mutex_);
  Rank& own = ranks_[rank];
  own.ready = ready;
  own.why = why;
  own.may_stall = may_stall;
  own.stalls = false;
  pass_turn(rank);
  own.turn_comes.wait(lock, [&] { return turn_ == rank || error_; });
  if (error_) std::rethrow_exception(error_);
  own.ready = {};
  return !own.stalls;
}

// To the next rank that can run. If none can, one whose wait may stall goes on.
void RankTurns::pass_turn(int rank) {
  const int count = static_cast<int>(ranks_.size());
  const auto give = [&](const auto& may_run) {
    for (int i = 1; i <= count; ++i) {
      const int next = (rank + i) % count;
      if (ranks_[next].has_ended || !may_run(ranks_[next])) continue;
      turn_ = next;
      ranks_[next].turn_comes.notify_one();
      return true;
    }
    return false;
  };
  if (give([](const Rank& next) { return !next.ready || next.ready(); })) return;
  if (give([](Rank& next) { return next.stalls = next.may_stall; })) return;
  if (std::ranges::all_of(ranks_, &Rank::has_ended)) return;
  error_ = std::make_exception_ptr(Error(message_prefix() + "the simulated ranks wait for each other: " + waiting()));
  wake_all();
}

std::string RankTurns::waiting() const {
  std::string all;
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (!all.empty()) all += ", ";
    all += ranks_[rank].has_ended ? fmt::format("rank {} has ended", rank)
                                  : fmt::format("rank {} waits for {}", rank, ranks_[rank].why);
  }
  return all;
}

}  // namespace fsdp::plan
