// The calls that ranks make of their worlds (include/fsdp/world.h), and their long waits, as the other groups of these
// ranks see them.
//
// All ranks of a world make its calls in one order, and no call ends before all ranks have begun it. So a rank in call
// 5 of a world waits for each rank that has begun 4 of them. Where such a rank waits for the first one in another
// group, neither can go on. A circle of waits over several groups is found in the same way (wait_circle.h).
//
// Calls beside the program run on a thread of the library. A rank has come to such a call when its program has given
// it, and a program that waits for it waits for the ranks that the library's thread waits for.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "collectives/wait_circle.h"

namespace fsdp::collectives {

// A call that a rank is in.
struct WorldCall {
  uint64_t world = 0;        // a number that its ranks have in common
  uint64_t number = 0;       // of the call in its world; the first is 1
  std::string purpose = {};  // in words that follow "rank 1 "
};

// A circle that a wait of this rank is part of.
struct FoundCircle {
  std::string text;
  bool all_have_found = false;  // each rank in it; or a rank took too long
};

// Looks for circles beside the waiting threads. Any thread.
class CircleFinder {
 public:
  virtual ~CircleFinder() = default;
  // A wait is long.
  virtual void wake() = 0;
};

// This process's groups and worlds, the calls of worlds that it has begun, and its long waits. Any thread.
class WorldCalls {
 public:
  // A group, or a world, has a number that its ranks have in common.
  struct Place {
    uint64_t group = 0;                // 0: it has none, and its waits are in no circle
    std::vector<int> ranks = {};       // as messages name them
    std::string where = "in a group";  // follows a rank's action: "along data"
    bool of_model = false;             // of a sharded model, whose ranks begin its operations in one order
  };

  WorldCalls();
  ~WorldCalls();
  WorldCalls(const WorldCalls&) = delete;
  WorldCalls& operator=(const WorldCalls&) = delete;

  // This rank is one of that group's; the calling thread uses it. To be closed as often as it was opened.
  void open(const Place& place);
  void close(uint64_t group);
  // From now on the calling thread uses it.
  void use(uint64_t group);

  // The calling thread is in a call from now on. Returns the call's number in its world.
  uint64_t begin(uint64_t world, const std::string& purpose = {});
  // The calling thread is in no call.
  void end();
  // The calling thread begins an operation of a model's group. Returns its number; ranks have come to it that have
  // begun as many.
  uint64_t begin_operation(uint64_t group);

  // The program's thread gives a call of that group to a thread of the library. Returns the call's number.
  uint64_t give(uint64_t group);
  // The calling thread, the library's, runs such a call until `end`.
  void run_given(uint64_t group, uint64_t number, const std::string& purpose);
  // While it lives, the calling thread waits for what a thread of the library does.
  class WaitForThread {
   public:
    WaitForThread(WorldCalls& calls, std::thread::id thread);
    ~WaitForThread();
    WaitForThread(const WaitForThread&) = delete;
    WaitForThread& operator=(const WaitForThread&) = delete;

   private:
    WorldCalls& calls_;
    const uint64_t waiting_;
  };
  // Returns whether a rank that is in `call` waits for this one.
  bool is_awaited_by(const WorldCall& call) const;

  // A long wait of the calling thread that ends only after the awaited ranks have come.
  class Wait {
   public:
    Wait(WorldCalls& calls, uint64_t group, const std::string& purpose);
    ~Wait();
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;
    // It goes on for these ranks.
    void look(std::vector<int> awaited);

   private:
    WorldCalls& calls_;
    const uint64_t thread_;
  };
  // A long wait of another thread, in an operation of a model's group. Until `hide`.
  void show(std::thread::id thread, uint64_t group, uint64_t operation, const std::string& purpose,
            const std::vector<int>& ranks);
  void hide(std::thread::id thread);
  // A wait has been long that is not a Wait: that of a thread in a call.
  void note_long_wait();
  // The circle of the thread's present wait.
  std::optional<FoundCircle> circle_of(std::thread::id thread) const;

  // For the finder: the waits that are long by now, and what became of one. It is destroyed before this.
  RankWaits waits() const;
  void conclude(uint64_t wait, const FoundCircle& circle);
  // Before other threads use this.
  void find_circles_by(std::unique_ptr<CircleFinder> finder) { finder_ = std::move(finder); }

  // The program's function has thrown: this rank does not end as it should.
  void note_exception() { has_thrown_ = true; }
  bool has_thrown() const { return has_thrown_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Group {
    Place place;
    int opened = 0;
    uint64_t calls = 0;  // or operations
    uint64_t thread = 0;
    bool is_given = false;  // its calls, to a thread of the library
  };
  struct Present {
    ThreadWait wait;
    Clock::time_point since;
  };

  std::atomic<bool> has_thrown_ = false;
  mutable std::mutex mutex_;
  std::map<uint64_t, Group> groups_;
  // By thread: its call, and its long wait in the call or elsewhere.
  std::map<uint64_t, Present> calls_;
  std::map<uint64_t, ThreadWait> waits_;
  std::map<uint64_t, uint64_t> awaited_threads_;  // by the thread that waits
  uint64_t last_wait_ = 0;
  std::map<uint64_t, FoundCircle> circles_;  // by the number of the wait
  std::unique_ptr<CircleFinder> finder_;
};

}  // namespace fsdp::collectives
