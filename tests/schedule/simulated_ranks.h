// Several ranks of a step driver in one process: their messages, gathers and reductions, and numbers in place of
// tensors. It checks what any exchange must hold, and throws std::logic_error where that is broken.
//
//   - An operator's unit is full, and in a buffer that no other unit has.
//   - A gather has the parts of all ranks that share the unit, each as old as this rank's.
//   - Every gradient is in exactly one reduction, in which all ranks take part.
//   - A shard is written once per step, while no rank reads it.
//
// Each rank runs in a thread of its own. One lock covers all; a rank that waits says what it waits for, so that the
// others can stall, as real ones do. If all wait, that is a deadlock and an error.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "schedule/step_driver.h"

namespace fsdp::schedule {

using Message = std::vector<int64_t>;

// What the ranks have in common. All but the calls is to be looked at under the lock.
class SimulatedGroup {
 public:
  SimulatedGroup(int ranks, int units, int shards);

  // Waits until `ready`, which looks at the group alone. `where` is for messages.
  void wait(std::unique_lock<std::mutex>& lock, int rank, const std::string& where, const std::function<bool()>& ready);
  void changed() { condition_.notify_all(); }
  // The rank has ended, with an error or without.
  void leave(int rank);
  bool share(int rank, int peer) const { return rank / shards == peer / shards; }
  // Every rank that shares the unit's shards with this one holds.
  bool all_sharers(int rank, const std::function<bool(int peer)>& holds) const;
  bool all_ranks(const std::function<bool(int peer)>& holds) const;

  struct Unit {
    std::vector<int> gathers;                      // by rank: that it has taken part in
    std::map<std::pair<int, int>, int> versions;   // of the shards, by group of shards and gather
    std::vector<int> version;                      // by rank: writes of its shard
    std::vector<int> left;                         // by rank: the first version that it may read again
    std::vector<std::vector<int64_t>> reductions;  // by rank: the gradients that it brought to each
  };

  const int ranks, shards;
  std::mutex mutex;
  std::vector<Unit> units;
  std::vector<uint8_t> waits;                               // by rank
  std::vector<std::vector<Message>> messages;               // by number, then by rank
  std::vector<size_t> said;                                 // by rank: messages
  std::vector<std::map<int, std::map<int, int64_t>>> made;  // by rank, step and unit: the sum of the gradients

 private:
  void find_deadlock();

  std::condition_variable condition_;
  std::vector<std::function<bool()>> ready_;
  std::vector<std::string> where_;
  std::vector<uint8_t> gone_;
  std::string deadlock_;
};

// One rank.
class SimulatedRank final : public Performer, public GradientSums, public Peers {
 public:
  SimulatedRank(SimulatedGroup& group, int rank, const Facts& facts, const Limits& limits);

  // The events and calls of a program.
  void use(UnitId unit, Mode mode, bool runs_again = false);
  void gradient(UnitId unit, int64_t value, int trainable);
  void step();
  void load();
  void abandon_backward();

  // What came in this step goes. On all ranks.
  void zero_grad();

  void gather(UnitId unit, int buffer, Order order) override;
  bool gather_stalls(UnitId unit) override;
  void await_gather(UnitId unit) override;
  void gather_for_peers(UnitId unit, int spare) override;
  void release(UnitId unit, int buffer) override;
  void open_gradients(UnitId unit, int buffer) override;
  void reduce(UnitId unit, int buffer) override;
  Begun has_begun(UnitId unit) override;
  void await_reduction(UnitId unit, int buffer, bool used_at_once) override;
  void move_gradients(int from, int to) override;
  std::vector<UnitId> end_reductions(bool everywhere, bool as_before, int buffers) override;
  void await_sums() override {}
  bool sum_is_complete(UnitId) override { return true; }
  void await_readers() override {}
  bool begin_write(UnitId unit, Readers readers) override;
  void publish(UnitId unit) override;
  void begin_all_writes() override;
  void publish_all() override;
  void change_full(UnitId, Order, const std::function<void()>& change) override { change(); }
  void mark_changed() override {}
  void begin_updates() override {}
  void update(UnitId unit, bool early) override;
  void read_ahead(UnitId) override {}

  bool any() const override { return has_gradients_; }
  bool are_reset() const override { return !has_gradients_; }
  void begin() override {}
  void end() override {}
  void drop() override { has_gradients_ = false; }
  void give_back() override {}
  void settle() override {}
  void forget_late() override {
    for (Unit& unit : units_) unit.late = 0, unit.has_late = false;
  }

  std::vector<Message> all_gather(std::span<const int64_t> words, const std::string& purpose) override;
  void ranks_differ(bool) override {}
  bool reductions_as_before() override { return true; }
  void forward_begins(bool) override {}
  void backward_ended(bool) override {}
  void backward_measured() override {}

  // By step and unit: the sum that it was stepped with.
  std::map<int, std::map<int, int64_t>> stepped;

 private:
  enum class Full { Sharded, Gathering, Full };
  struct Unit {
    Full full = Full::Sharded;
    int buffer = -1;
    int gather = 0;    // the number of the one under way
    int64_t open = 0;  // gradients in the buffer
    int64_t late = 0;  // kept aside
    bool has_late = false;
    int64_t sum = 0;  // over ranks and micro-batches
    bool writes = false;
  };

  void check(bool holds, const std::string& problem, UnitId unit = -1) const;
  int take_part(UnitId unit);
  void await(std::unique_lock<std::mutex>& lock, UnitId unit, int gather);
  void begin_write_of(std::unique_lock<std::mutex>& lock, UnitId unit, bool waits);
  void written(UnitId unit);

  SimulatedGroup& group_;
  const int rank_;
  const bool one_sided_;
  int step_ = 0;
  std::vector<Unit> units_;
  std::map<int, UnitId> full_, gradients_;  // by buffer
  bool has_gradients_ = false;
  std::atomic<bool> changed_ = false, local_sums_ = false;

 public:
  StepDriver driver;
};

// Runs the program on every rank. `facts` are one rank's, but for its number and the ranks that share its shards.
// Returns the errors by rank, "" where there was none. Compares what each step was made with.
std::vector<std::string> run_simulated(Facts facts, Limits limits,
                                       const std::function<void(SimulatedRank&, int rank)>& program);

}  // namespace fsdp::schedule
