// The interfaces between the order of a step and the work of a step.
//
// The step driver (step_driver.h) decides the order. Implementations do one thing per call and decide nothing: the
// engine with tensors, a simulator with a clock, a test with a script. One thread at a time calls them; under the
// model's lock, where there is one. An exception leaves the driver's call, and later calls throw it again.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/exchange_terms.h"
#include "schedule/use_order.h"

namespace fsdp::schedule {

// The facts of a model that the order of its steps depends on. One answer holds for all units.
struct Facts {
  std::vector<std::string> units = {};  // their names
  int rank = 0, ranks = 1;
  std::vector<int> names = {};         // how messages call the ranks; empty: by their own numbers
  int shards = 1;                      // ranks that share one copy of the state
  std::vector<uint8_t> sharers = {1};  // by rank: 1 if it has the same copy of the state as this one
  bool one_sided = false;              // a gather needs nothing of the peers but that they have published
  bool any_order = false;              // ranks may begin gathers in different orders (Order::Any)
  bool joins = false;                  // a rank can take part in gathers that it has not begun

  int count() const { return static_cast<int>(units.size()); }
  bool alone() const { return ranks == 1; }
  bool divided() const { return shards > 1; }
  bool replicated() const { return shards < ranks; }
};

// One unit's work, or that on all shards.
class Performer {
 public:
  virtual ~Performer() = default;

  // Full units lie in numbered buffers.
  //
  // Begins to make the unit full.
  virtual void gather(UnitId unit, int buffer, Order order) = 0;
  // Waits for the gather under way. True if a peer does not take part before this rank goes on.
  virtual bool gather_stalls(UnitId unit) = 0;
  // Operators find the unit afterwards.
  virtual void await_gather(UnitId unit) = 0;
  // Takes part in a gather of peers, in a spare buffer. This rank may hold the unit, or be gathering it.
  virtual void gather_for_peers(UnitId unit, int spare) = 0;
  virtual void release(UnitId unit, int buffer) = 0;

  // A unit's gradients are completed in numbered buffers.
  //
  // The buffer is the unit's from now on. Gradients that were kept aside come into it.
  virtual void open_gradients(UnitId unit, int buffer) = 0;
  virtual void reduce(UnitId unit, int buffer) = 0;  // begins
  virtual Begun has_begun(UnitId unit) = 0;          // waits until that is known
  // The sum over ranks is in its place afterwards, and the buffer free. `used_at_once`: by a step in this backward.
  virtual void await_reduction(UnitId unit, int buffer, bool used_at_once) = 0;
  // The reduction in buffer `from` keeps its memory under the number `to`.
  virtual void move_gradients(int from, int to) = 0;
  // All reductions of a backward are over, on every rank or, if not `everywhere`, given up on this one. `as_before`: on
  // all ranks they were those of the last backward. Buffers beyond the first `buffers` go. Returns units whose sums
  // turned out to hold gradients of other parameters, and are corrected.
  virtual std::vector<UnitId> end_reductions(bool everywhere, bool as_before, int buffers) = 0;
  // Waits for the sums over replicas of the shards.
  virtual void await_sums() = 0;
  // True if this unit's sum has nothing to wait for.
  virtual bool sum_is_complete(UnitId unit) = 0;

  // Shards.
  //
  // Reads that go on beside the program, as a save's do, are over afterwards.
  virtual void await_readers() = 0;
  // The unit's shard may be written afterwards. False, only for Readers::Ask: a peer may still read it.
  virtual bool begin_write(UnitId unit, Readers readers) = 0;
  virtual void publish(UnitId unit) = 0;
  // A write of every unit's shard.
  virtual void begin_all_writes() = 0;
  virtual void publish_all() = 0;
  // Between a release and a gather of a full unit, which so comes to lie where it was, `change` writes its shard.
  virtual void change_full(UnitId unit, Order order, const std::function<void()>& change) = 0;
  // The shards have changed since parameters were used last: autograd is told.
  virtual void mark_changed() = 0;

  // The optimizer's rule. `begin_updates` comes before the first `update` of a step that is not `early`; an early
  // update comes inside a backward, and frees the unit's gradients. Either publishes.
  virtual void begin_updates() = 0;
  virtual void update(UnitId unit, bool early) = 0;
  virtual void read_ahead(UnitId unit) = 0;  // a hint: shard, sum and state are used soon
};

// The gradients of the whole model, summed up over ranks and micro-batches.
class GradientSums {
 public:
  virtual ~GradientSums() = default;

  virtual bool any() const = 0;
  virtual bool are_reset() const = 0;  // by the user: every gradient is none, or zero
  virtual void begin() = 0;            // a new sum
  virtual void end() = 0;              // backwards add nothing to it from now on
  virtual void drop() = 0;             // pieces have no gradients from now on
  virtual void give_back() = 0;        // so does the memory
  virtual void settle() = 0;           // gradients that wait for their places come there
  virtual void forget_late() = 0;      // gradients that were kept aside go
};

// The messages that ranks exchange beside those of units, each a collective.
class Peers {
 public:
  virtual ~Peers() = default;

  // The words of every rank, by rank; as many on each. `purpose` is this rank's action in the peers' messages.
  virtual std::vector<std::vector<int64_t>> all_gather(std::span<const int64_t> words, const std::string& purpose) = 0;
  // No message. `differ`: from now on ranks use different units. The same on all ranks.
  virtual void ranks_differ(bool differ) = 0;
  // No message, once per round: this rank's reductions were those of the last backward.
  virtual bool reductions_as_before() = 0;
  // The module's buffers, at a forward's begin and a backward's end. `together`: every rank comes to the same call, and
  // may talk.
  virtual void forward_begins(bool together) = 0;
  virtual void backward_ended(bool together) = 0;
  // Decides about activations. Only where ranks are together.
  virtual void backward_measured() = 0;
};

}  // namespace fsdp::schedule
