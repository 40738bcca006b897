// Takes turns among simulated ranks: one runs at a time, until it waits for what others have to do first. So all is
// deterministic, and ranks share state without locks. One rank alone runs on the caller's thread.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

namespace fsdp::plan {

class RankTurns {
 public:
  explicit RankTurns(int ranks) : ranks_(ranks) {}

  // Runs the program of every rank. Throws the first error of any, and Error if all wait.
  void run(const std::function<void(int rank)>& program);
  // In a rank's turn: others run until `ready` holds. False, if `may_stall`: it does not before this rank goes on.
  // `why` is for messages.
  bool wait(int rank, const char* why, const std::function<bool()>& ready, bool may_stall = false);

 private:
  struct Rank {
    std::function<bool()> ready = {};  // empty: it runs, or waits for nothing but its turn
    const char* why = "";
    bool may_stall = false, stalls = false, has_ended = false;
    std::condition_variable turn_comes = {};
  };

  void run_rank(int rank, const std::function<void(int rank)>& program);
  void pass_turn(int rank);
  void fail(std::exception_ptr error);
  void wake_all();
  std::string waiting() const;

  std::vector<Rank> ranks_;
  std::mutex mutex_;
  int turn_ = 0;
  std::exception_ptr error_;
};

}  // namespace fsdp::plan
