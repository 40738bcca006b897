// One rank among ranks that share memory: how it waits for the others, and learns of their state meanwhile.
//
// A wait looks at the counters for a moment, then sleeps, and a peer that changes a counter wakes it. Every few
// milliseconds of sleep it checks the ranks that it waits for. If one failed, died, left or is silent for longer than
// the timeout, the wait ends with an error that names it. Time in which this rank was stopped does not count. While
// everything is in time there is no system call. Meanwhile the rank does work that a peer may be waiting for in its
// turn (`Work`), and moves the messages of its thread's other transports (pumps.h). When all ranks wait all the same,
// and go on waiting, they have made different calls: that ends the wait as well. So does a call of a world in which a
// rank that is missing waits for this one.
//
// One thread at a time. Knows neither tensors nor LibTorch; ranks may be processes or threads.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "collectives/pumps.h"
#include "collectives/rank_status.h"
#include "collectives/shm/control.h"
#include "collectives/transport.h"
#include "collectives/world_calls.h"

namespace fsdp::collectives::shm {

// Why a wait cannot succeed, as a clause that names the rank.
class WaitFailure : public TransportFailure {
 public:
  enum class Kind { Lost, PeerFailed, Diverged };

  WaitFailure(Kind kind, const std::string& text, int peer, std::optional<Failure> cause = std::nullopt)
      : TransportFailure(text, peer), kind_(kind), cause_(std::move(cause)) {}

  Kind kind() const { return kind_; }
  const std::optional<Failure>& cause() const { return cause_; }  // of the peer that failed

 private:
  Kind kind_;
  std::optional<Failure> cause_;
};

// Work that is under way beside the caller, and goes on whenever the caller waits.
class Work {
 public:
  virtual ~Work() = default;
  // Does what can be done now; true when there is nothing left to do.
  virtual bool advance() = 0;
};

struct Member {
  Control* control = nullptr;
  pid_t process = 0;
  int name = 0;  // how messages call the rank
};

class Ranks {
 public:
  // `members` are all ranks, this one included. Their memory outlives this. `calls` are this rank's; none: its peers'
  // calls of worlds are not looked at. `place`: of the group in these.
  Ranks(int rank, std::vector<Member> members, std::chrono::milliseconds timeout,
        std::shared_ptr<WorldCalls> calls = nullptr, const WorldCalls::Place& place = {});
  // This rank leaves: who still waits for it is told.
  ~Ranks();
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(members_.size()); }
  int name_of(int rank) const { return members_[rank].name; }
  Control& control_of(int rank) const { return *members_[rank].control; }
  const std::vector<int>& peers() const { return peers_; }
  std::chrono::milliseconds timeout() const { return timeout_; }

  // To be called after a counter of this rank has changed.
  void ring();
  // To be read by the peers, once.
  void fail(const Failure& failure);
  // From now on.
  void enter(Phase phase);
  // As Group::note_call.
  void note_call(const WorldCall* call);

  // Does `work` until it is done, whenever this rank waits or advances. It outlives that, or is withdrawn.
  void add(Work& work);
  void withdraw(const Work& work);
  bool has_work() const { return !works_.empty(); }
  void advance();

  using Arrived = std::function<bool(int rank)>;
  using Condition = std::function<bool()>;
  // Returns when `arrived` was true for each of `ranks`; it is not asked again then. `purpose` is what this rank does,
  // in words that follow "rank 1 ". Throws WaitFailure.
  void wait(std::span<const int> ranks, const std::string& purpose, const Arrived& arrived) {
    wait_unless(ranks, purpose, arrived, {});
  }
  // As `wait`, but ends with false when, while this rank sleeps, `hopeless` is true.
  bool wait_unless(std::span<const int> ranks, const std::string& purpose, const Arrived& arrived,
                   const Condition& hopeless);
  // The ranks that the last wait still missed.
  const std::vector<int>& missing() const { return missing_; }

 private:
  class LongWait;

  bool all_arrived(const Arrived& arrived);
  bool sleep_until_all_arrived(LongWait& wait, const Arrived& arrived, const Condition& hopeless);
  void sleep(const Arrived& arrived);
  void look(const Arrived& arrived) const;
  bool is_dead(int rank) const;
  std::optional<Failure> failure_of(int rank) const;
  std::optional<WorldCall> call_of(int rank) const;
  void note_user();

  int rank_;
  std::vector<Member> members_;
  std::chrono::milliseconds timeout_;
  std::shared_ptr<WorldCalls> calls_;
  uint64_t group_;                                                  // in these
  std::atomic<std::thread::id> user_ = std::this_thread::get_id();  // the thread of the last wait
  std::vector<int> peers_;
  std::vector<int> descriptors_;  // of the peers' processes, by rank; -1 where there is none any more
  std::vector<Work*> works_;
  PumpingWait pumping_;
  std::vector<int> missing_;
};

// While it lives, peers see what this rank waits for.
class PhaseScope {
 public:
  PhaseScope(Ranks& ranks, Phase phase) : ranks_(ranks) { ranks_.enter(phase); }
  ~PhaseScope() { ranks_.enter(Phase::Runs); }
  PhaseScope(const PhaseScope&) = delete;
  PhaseScope& operator=(const PhaseScope&) = delete;

 private:
  Ranks& ranks_;
};

}  // namespace fsdp::collectives::shm
