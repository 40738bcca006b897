// When a unit's gradients are complete, and in which gradient buffer they are completed: the part of the schedule that
// reduces.
//
// A rank may lack a gradient that its peers have. It must not keep them waiting: a unit is *over* once the backward
// uses another after the unit's last use, or after its last gradient where that came later in the last backward, and is
// then reduced with what there is. All ranks use the units in the same order, so a reduction of a unit that is over is
// under way everywhere, and only such a one is waited for before the end of backward.
//
// Where ranks use units freely a reduction may stall all the same: the peer that has not begun it waits for another.
// Who finds that out takes one more buffer and goes on.
//
// With a buffer for every unit nothing is waited for before the end of backward, so that it does not matter which units
// a rank uses, and when.
//
// Pure; not for concurrent use.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "schedule/action.h"

namespace fsdp::schedule {

class Reductions {
 public:
  Reductions(int units, int buffers);

  // The backward goes on to use other units. `forward_uses` counts each unit's uses before.
  void use(std::span<const UnitId> units, std::span<const int> forward_uses, Actions& actions);
  // Before a gradient of `unit` is written: it has a gradient buffer afterwards.
  void open(UnitId unit, Actions& actions);
  // After it was written. `trainable` is how many parameters of the unit want gradients.
  void arrived(UnitId unit, int trainable, int forward_uses, Actions& actions);

  // What this rank knows of this backward: for each unit how many reductions it has begun or has to, then for each unit
  // how many uses of others lay between its last use and its last gradient (-1 where none came), then for each unit how
  // many gradients came.
  std::vector<int64_t> account() const;
  // For each unit how many reductions this rank has begun.
  std::vector<int64_t> begun() const;
  // Begins one of the reductions that any rank began or has to, given the ranks' largest accounts, or largest `begun`,
  // number by number. No actions: there is none left.
  void begin_next(std::span<const int64_t> account, Actions& actions);
  // Waits for all.
  void wait_all(Actions& actions);
  // Forgets what came in the last backward, but for what stays open.
  void begin_backward();
  // Waits for all at the end of a backward. Given the same account, the next backward expects what came in this one.
  void finish(std::span<const int64_t> account, Actions& actions);
  // In place of a backward: this rank takes part in the others' reductions, of which it learns through `begin_rest`, or
  // repeats those that its last backward began, in that order.
  void follow() { follows_ = true; }
  void repeat(Actions& actions);
  // A gradient came while a reduction of the unit is under way that does not end now: it is kept aside, for a reduction
  // after all others.
  void keep_late(UnitId unit);
  bool under_way(UnitId unit) const { return units_[unit].state == State::Reducing; }
  // A WaitBuffer found that a peer does not begin the unit's reduction. The buffer that the reduction keeps from now
  // on.
  int stalls(UnitId unit);
  // From now on gradients stay with this rank: units that get some stay open, over any number of backwards, until a
  // backward in which gradients are reduced again.
  void set_local(bool local) { local_ = local; }
  // Forgets gradients that were not reduced.
  void abandon(Actions& actions);

  int buffers() const { return static_cast<int>(occupants_.size()); }
  bool reduced(UnitId unit) const { return units_[unit].now.begun > 0; }
  // Whether the unit has been reduced, once, with as many gradients as any backward ever brought.
  bool complete(UnitId unit) const;

 private:
  enum class State { Idle, Open, Reducing };
  // What happened to a unit in this backward.
  struct Progress {
    int arrived = 0;  // gradients
    int reduced = 0;  // how many of them
    int begun = 0;    // reductions
    int needed = 0;   // those that had a gradient of this rank
    int uses = 0;
    int last_use = 0;  // counted from 1, over all units
    int lag = 0;       // uses of others between the last use and the last gradient
    bool over = false;
    bool stalled = false;
    bool late = false;  // there are gradients kept aside
  };
  // What it is expected to bring.
  struct Forecast {
    int gradients = 0;    // the most of any backward, on any rank; 0: not recorded
    int trainable = 0;    // parameters that wanted gradients then
    int uses = 0;         // in the last backward
    int lag = -1;         // in the last backward, the longest of all ranks; -1: no gradient came
    bool stalls = false;  // its reduction did so in some backward: others are waited for first
  };
  struct Unit {
    State state = State::Idle;
    int buffer = -1;
    uint64_t begun_at = 0;  // of its last reduction, by the clock
    bool carried = false;   // holds gradients of earlier backwards
    Progress now;
    Forecast expected;
  };

  bool is_over(const Unit& unit, int forward_uses) const;
  // The unit may be over at the use after the present one, or after its lag.
  void look_at(UnitId unit, int lag) { due_[uses_ + lag + 1].push_back(unit); }

  void reduce(UnitId unit, Actions& actions);
  void wait(UnitId unit, Actions& actions, Action::Kind kind = Action::Kind::WaitReduce);
  int take_buffer(UnitId unit, Actions& actions);

  std::vector<Unit> units_;
  bool shares_buffers_;
  std::vector<int> occupants_;  // unit in each gradient buffer, -1 for none
  int open_ = 0;                // units in state Open now
  int most_open_ = 0;           // at once, in any backward so far
  uint64_t clock_ = 0;
  int uses_ = 0;                            // in this backward
  bool recorded_ = false;                   // whether there was a backward before
  std::map<int, std::vector<UnitId>> due_;  // by the use at which they are to be looked at, units that may be over
  std::vector<UnitId> order_;               // in which this backward began reductions
  std::vector<UnitId> last_order_;          // the last one that began any
  bool local_ = false;
  bool follows_ = false;
};

}  // namespace fsdp::schedule
