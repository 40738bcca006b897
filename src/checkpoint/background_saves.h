// Saves of one model that go on beside its training, one at a time, each in a thread of its own.
//
// The thread copies the state, which does not change meanwhile (engine/shard_readers.h), and writes the copy. It
// commits the copy together with the other ranks' threads, over their own group. State that lies in files is not
// copied: it was put there because memory is short. There the next change waits for the files, and so it does where the
// host has no memory for the copy.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "checkpoint/snapshot.h"
#include "checkpoint/staging.h"
#include "collectives/group.h"
#include "engine/model.h"
#include "engine/shard_readers.h"

namespace fsdp::checkpoint {

// A save on its way, for all who ask about it. Any thread.
class SaveUnderWay {
 public:
  using Clock = std::chrono::steady_clock;

  // `what` it is, for messages. It was asked for at `begin`. Changes of the state wait for `reading`.
  SaveUnderWay(std::string what, Clock::time_point begin, std::shared_ptr<engine::ShardReaders::Reading> reading);

  bool is_over() const;
  // Returns when it is committed; throws what went wrong, each time.
  void wait();
  double seconds_paused() const;
  double seconds() const;

 private:
  friend class BackgroundSaves;

  void call_returns();
  void end(std::exception_ptr failure);
  // When it is over: a line about an unreported failure, or empty. It is told then.
  std::string wait_for_untold_failure();

  enum class State { UnderWay, Committed, Failed };

  const std::string what_;
  const Clock::time_point begin_;
  const std::shared_ptr<engine::ShardReaders::Reading> reading_;
  mutable std::mutex mutex_;
  mutable std::condition_variable over_;
  State state_ = State::UnderWay;
  std::exception_ptr failure_;
  bool is_told_ = false;  // of the failure
  double seconds_of_call_ = 0, seconds_ = 0;
};

// The state that a save begins with.
struct TakenState {
  Snapshot snapshot = {};
  std::vector<bool> is_own = {};    // of each tensor: it is a copy already
  std::exception_ptr failure = {};  // this rank's, in place of the others
};

// Owned by the model. The calls come from the thread that trains.
class BackgroundSaves {
 public:
  // Steps of a save's thread, in their order.
  enum class Step { Copy, Write, Commit };

  // A collective of `ranks`, which connects them for the saves alone. `copy_bytes`, which outlives this, is told how
  // much memory the copies take.
  BackgroundSaves(const CheckpointRanks& ranks, std::atomic<int64_t>& copy_bytes);
  // Waits for the save that is under way.
  ~BackgroundSaves();
  BackgroundSaves(const BackgroundSaves&) = delete;
  BackgroundSaves& operator=(const BackgroundSaves&) = delete;

  // None is under way.
  std::shared_ptr<SaveUnderWay> start(const SaveTarget& target, TakenState state, SaveUnderWay::Clock::time_point begin,
                                      std::shared_ptr<engine::ShardReaders::Reading> reading);
  // Waits until none is under way. The first rank writes an unreported failure to standard error.
  void finish();

  // True if the saves are those of these ranks.
  bool are_of(const CheckpointRanks& ranks) const { return ranks.identity() == ranks_; }

  // For tests: called in the save's thread when it comes to a step. An exception of it is this rank's error.
  void watch_steps(std::function<void(Step)> watcher) { watcher_ = std::move(watcher); }

 private:
  void run(const SaveTarget& target, TakenState& state, const std::shared_ptr<SaveUnderWay>& save);
  void stage(TakenState& state, SaveUnderWay& save);
  void comes_to(Step step) const {
    if (watcher_) watcher_(step);
  }

  const void* ranks_;  // CheckpointRanks::identity
  std::unique_ptr<collectives::Group> group_;
  std::atomic<int64_t>& copy_bytes_;
  Staging staging_;
  std::function<void(Step)> watcher_;
  std::shared_ptr<SaveUnderWay> current_;  // null: none is under way
  std::thread thread_;                     // its
};

// Those of the model, which are made when they are first asked for, and anew for other ranks. A collective then.
BackgroundSaves& background_saves_of(engine::Model& model, const CheckpointRanks& ranks);
// Those among the model's own ranks.
inline BackgroundSaves& background_saves_of(engine::Model& model) {
  return background_saves_of(model, CheckpointRanks(model, std::nullopt));
}
// Waits until none of the model's is under way.
void finish_background_saves(engine::Model& model);

}  // namespace fsdp::checkpoint
