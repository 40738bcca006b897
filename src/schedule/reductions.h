// The part of the schedule that reduces: when a unit's gradients are complete, and in which gradient buffer they are
// completed. Owned by Schedule, which feeds it the events of a backward. Pure; not for concurrent use.
//
// In a backward a unit goes from Idle to Open, when its first gradient comes, to Reducing, when its last one has come,
// and back to Idle, when its reduction has been waited for. A gradient that comes after that opens it once more.
//
// Which one is the last? A unit is reduced when
//  - all its trainable parameters have a gradient, or as many as any backward ever brought, if that is more;
//  - or it is over: the backward uses another unit after the unit's last use, or after its last gradient where that
//    came later. The last use is predicted from the last backward after as many uses in the forward. Before the first
//    backward it is the number of uses in the forward, except while the backward runs a part of that again.
// The second rule is for a rank that lacks a gradient which its peers have: it must not keep them waiting. Ranks use
// units in the same order, so that a unit which is over here is being reduced on every rank.
//
// Buffers. If units share them, a gradient buffer is taken from a reduction that is under way and over: it alone ends
// without waiting for this rank's next actions. If there is none, there is one more buffer from then on. If ranks use
// units in different orders, a reduction can stall. The waiting rank then leaves its buffer to that reduction and takes
// another. This extra buffer is freed at the end of the backward or, if a peer stalled, after some backwards in which
// no peer stalls. If each unit has a buffer, no reduction is waited for before the end of the backward, and ranks may
// use any units at any time.
//
// The end of a backward. The ranks exchange their `counts` and take the largest of each number. They begin the
// reductions that are missing (`begin_next` until nothing comes), and `finish`, which waits for them in unit order.
//
// The class has so many members because each answer takes units, buffers and the present backward.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "schedule/action.h"
#include "schedule/unit_counts.h"
#include "schedule/unit_progress.h"

namespace fsdp::schedule {

class Reductions {
 public:
  // The progress of the units, which outlives it.
  Reductions(std::vector<UnitProgress>& progress, int buffers);

  // The backward goes on to use other units. `forward_uses` counts each unit's uses before. `again`: for a part of the
  // forward that it runs again, which may begin before a unit that a backward has reached.
  void use(std::span<const UnitId> units, std::span<const int> forward_uses, bool again, Actions& actions);
  // After such a part, the backward itself goes on with the units that the part used last.
  void goes_on(std::span<const int> forward_uses, Actions& actions);
  // Before a gradient of `unit` is written: it has a gradient buffer afterwards.
  void open(UnitId unit, Actions& actions);
  // After it was written. `trainable` is how many parameters of the unit want gradients.
  void arrived(UnitId unit, int trainable, int forward_uses, Actions& actions);

  // This rank's counts at the end of this backward.
  UnitCounts counts() const;
  // In its midst: only the reductions that this rank has begun.
  UnitCounts begun() const;
  // Begins one of the reductions that any rank began or must begin, given the largest counts of the ranks. No actions:
  // none is left.
  void begin_next(const UnitCounts& counts, Actions& actions);
  // Waits for all.
  void wait_all(Actions& actions);
  // Forgets what came in the last backward, but for what stays open.
  void begin_backward();
  // Ends a backward: waits for all, and forecasts the next ones by this one and the same counts.
  void finish(const UnitCounts& counts, std::span<const int> forward_uses, Actions& actions);
  // In place of a backward: this rank takes part in the others' reductions. It learns of them through `begin_rest`, or
  // repeats the reductions of its last backward, in that order.
  void follow() { follows_ = true; }
  void repeat(Actions& actions);
  // A gradient came while a reduction of the unit is under way that does not end now: it is kept aside, for a reduction
  // after all others.
  void keep_late(UnitId unit);
  bool under_way(UnitId unit) const { return progress_[unit].gradients == State::Reducing; }
  // A WaitBuffer found that the unit's reduction does not end before this rank goes on. `of_peer`: a peer has not begun
  // it. Returns the number of the buffer that the reduction keeps from now on.
  int stalls(UnitId unit, bool of_peer);
  // From now on gradients stay with this rank: units that get some stay open, over any number of backwards, until a
  // backward in which gradients are reduced again.
  void set_local(bool local) { local_ = local; }
  // `alike`: ranks use the same units. If not, units that lack gradients are reduced at the end of the backward, and no
  // reduction is waited for before: units take more buffers, which stay as long as ranks differ.
  void set_alike(bool alike) { alike_ = alike; }
  // Forgets gradients that were not reduced.
  void abandon(Actions& actions);

  int buffers() const { return static_cast<int>(occupants_.size()); }
  bool shares_buffers() const { return shares_buffers_; }

 private:
  using State = UnitProgress::Gradients;
  // A unit in this backward, beside its progress.
  struct Uses {
    int needed = 0;  // uses with a gradient of this rank
    int uses = 0;
    int last_use = 0;  // counted from 1, over all units
    int lag = 0;       // uses of others between the last use and the last gradient
    bool over = false;
    bool stalled = false;
  };
  // The last backward after so many uses in the forward.
  struct Forecast {
    int forward_uses = 0;
    int uses = 0;
    int lag = -1;  // the longest of all ranks; -1: no gradient came
  };
  struct Unit {
    int buffer = -1;
    uint64_t begun_at = 0;  // of its last reduction, by the clock
    bool carried = false;   // holds gradients of earlier backwards
    Uses now;
    std::vector<Forecast> forecasts;  // of different numbers of uses; the latest is the last
    int trainable = 0;                // parameters that wanted gradients then
    bool stalls = false;              // its reduction stalled at a peer lately: other reductions are waited for first
  };

  static Forecast forecast_of(const Unit& unit, int forward_uses);
  bool is_over(UnitId id, int forward_uses) const;
  // The unit may be over at the use after the present one, or after its lag.
  void look_at(UnitId unit, int lag) { due_[uses_ + lag + 1].push_back(unit); }

  void reduce(UnitId unit, Actions& actions);
  void wait(UnitId unit, Actions& actions, Action::Kind kind = Action::Kind::WaitReduce);
  int take_buffer(UnitId unit, Actions& actions);
  void give_up_lent();

  std::vector<UnitProgress>& progress_;
  std::vector<Unit> units_;
  bool shares_buffers_;
  std::vector<int> occupants_;  // unit in each gradient buffer, -1 for none
  int open_ = 0;                // units in state Open now
  int most_open_ = 0;           // at once, in any backward so far
  int lent_ = 0;                // number of extra buffers for stalled reductions; the last ones
  bool peer_stalled_ = false;   // in this backward
  int keeps_lent_ = 0;          // extra buffers stay for so many backwards in which no peer stalls
  uint64_t clock_ = 0;
  int uses_ = 0;                            // in this backward
  bool recorded_ = false;                   // whether there was a backward before
  std::map<int, std::vector<UnitId>> due_;  // by the use at which they are to be looked at, units that may be over
  std::vector<UnitId> order_;               // in which this backward began reductions
  std::vector<UnitId> last_order_;          // the last one that began any
  bool local_ = false;
  bool alike_ = true;
  bool follows_ = false;
};

}  // namespace fsdp::schedule
