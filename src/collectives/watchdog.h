// Finds out, beside a rank that waits for long, why nothing comes.
//
// A thread looks once per second whether the same wait is still going on. If so it posts this rank's status and reads
// the peers'. Histories that differ at the same number are a divergence, for certain: a rank that is merely slow has a
// shorter history. So is a peer in a call of a world in which it waits for this rank, where it has not begun the
// operation that this rank waits in. A divergence, or a failure of a peer, ends the wait. While no wait is long,
// nothing is posted or read, and the watched thread pays for one free mutex per operation. The calls come from one
// thread at a time.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "collectives/rank_status.h"
#include "collectives/status_board.h"
#include "collectives/transport.h"
#include "collectives/world_calls.h"

namespace fsdp::collectives {

// Why a wait cannot succeed.
struct Diagnosis {
  std::string text;              // a clause that names the ranks
  std::optional<Failure> cause;  // of a peer; none: the ranks diverged
};

// The ranks that exchange something in an operation: all of the group, or some, as the owners of a unit's shards.
enum class Among { All, Some };

class Watchdog {
 public:
  // `names` is how messages call each rank. `calls` are this rank's calls of its worlds; none: those of the peers are
  // not looked at. `place`: of the group in these. Long waits in a model's group may be part of a circle.
  Watchdog(std::unique_ptr<StatusBoard> board, int rank, std::vector<int> names,
           std::shared_ptr<WorldCalls> calls = nullptr, const WorldCalls::Place& place = {});
  // Lets the thread post what it has to, for a few seconds if the board hangs.
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  void begins(std::string operation, Among among = Among::All);
  // Empty: none was begun.
  std::string last_operation() const;
  // As Group::note_call.
  void note_call(const WorldCall* call);
  // Between the two the messages may be aborted; they stay where they are. `unless_waiting`: a peer whose own long wait
  // ends this one.
  void wait_begins(std::span<const std::unique_ptr<Message>> messages, std::optional<int> unless_waiting = {});
  void wait_ends() noexcept;
  // True if the last wait ended so.
  bool gave_up() const;
  // The cause of a wait that failed at `peer`, where it is known. Takes a moment: a peer that failed is given time to
  // say so.
  std::optional<Diagnosis> explain(int peer);
  // To be read by the peers.
  void fails(Failure failure);

 private:
  class Thread;

  std::shared_ptr<Thread> shared_;  // outlives this while the board hangs
  std::thread thread_;
};

}  // namespace fsdp::collectives
