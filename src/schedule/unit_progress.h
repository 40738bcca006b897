// The progress of one unit, on three axes: its full parameters, its gradients and its shard. They are independent: a
// unit whose shard was stepped may get another gradient, or be full again for the next micro-batch. The schedule owns
// one for each unit. Pure.
#pragma once

#include <cstdint>

namespace fsdp::schedule {

class UnitProgress {
 public:
  enum class Full : uint8_t { Sharded, Gathering, Full };
  // The gradients of a backward, on their way to the sum.
  enum class Gradients : uint8_t { Idle, Open, Reducing };
  // The shard, in a step that begins inside a backward. A rank leaves a unit when it reads it no more.
  enum class Shard : uint8_t { Old, Left, Stepped };

  Full full = Full::Sharded;
  int pins = 0;                 // operators that run on it
  int holds = 0;                // callers that keep it full over several passes
  bool given_up = false;        // this backward uses it no more
  bool begun_for_next = false;  // a gather for the next micro-batch was begun, and not waited for

  Gradients gradients = Gradients::Idle;
  bool late = false;   // some are kept aside
  int arrived = 0;     // gradients in this backward
  int reduced = 0;     // of these
  int reductions = 0;  // begun in this backward
  int most = 0;        // gradients of any backward, on any rank; 0: not known

  Shard shard = Shard::Old;

  bool pinned() const { return pins > 0; }
  bool held() const { return holds > 0; }
  bool left() const { return shard != Shard::Old; }
  bool stepped() const { return shard == Shard::Stepped; }

  // All gradients that any backward ever brought have come and are in the sum, by one reduction.
  bool complete() const {
    return gradients == Gradients::Idle && reductions == 1 && !late && reduced == arrived && most > 0 &&
           arrived >= most;
  }
  // `used_again`: by the rest of this backward, as far as the plan tells.
  bool may_leave(bool used_again) const { return !given_up && !pinned() && complete() && !used_again; }
  // `peers_left`: every rank that reads the shard has left the unit.
  bool may_step(bool peers_left) const { return shard == Shard::Left && peers_left; }
  // `comes_first`: the next micro-batch begins with it. `room`: beside all that this one still uses.
  bool may_gather_next(bool comes_first, bool room) const { return full == Full::Sharded && comes_first && room; }
  // It was gathered for the next micro-batch while this one still runs.
  bool gathered_next() const { return stepped() && full != Full::Sharded; }

  void begin_backward() { late = false, arrived = reduced = reductions = 0; }
};

}  // namespace fsdp::schedule
