// When a unit's gradients are complete, and in which gradient buffer they are completed: the part of the schedule that
// reduces.
//
// Pure; not for concurrent use.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "schedule/action.h"

namespace fsdp::schedule {

class Reductions {
 public:
  Reductions(int units, int buffers);

  // Before a gradient of `unit` is written: it has a gradient buffer afterwards.
  void open(UnitId unit, Actions& actions);
  // After it was written. `complete_at` is how many gradients the unit is thought to get in this backward where no
  // backward was recorded yet; 0: not known before its end.
  void arrived(UnitId unit, int complete_at, Actions& actions);

  // How many reductions each unit needs in this backward by what this rank knows.
  std::vector<uint8_t> rounds() const;
  // Reduces until each unit has had `rounds[unit]` reductions, those that the peers have gradients for among them, and
  // waits for all. What arrived is what the next backward expects.
  void finish(std::span<const uint8_t> rounds, Actions& actions);
  // Forgets gradients that were not reduced, after a backward that threw.
  void abandon(Actions& actions);

  int buffers() const { return static_cast<int>(occupants_.size()); }
  bool reduced(UnitId unit) const { return units_[unit].begun > 0; }

 private:
  enum class State { Idle, Open, Reducing };
  struct Unit {
    State state = State::Idle;
    int buffer = -1;
    int expected = 0;   // gradients in the last backward that had any; 0: not recorded
    int arrived = 0;    // gradients in this backward
    uint8_t begun = 0;  // reductions begun in this backward
    uint64_t begun_at = 0;
  };

  void reduce(UnitId unit, Actions& actions);
  void wait(UnitId unit, Actions& actions);
  int take_buffer(Actions& actions);

  std::vector<Unit> units_;
  std::vector<int> occupants_;  // unit in each gradient buffer, -1 for none
  int open_ = 0;                // units in state Open now
  int most_open_ = 0;           // at once, in any backward so far
  uint64_t clock_ = 0;
};

}  // namespace fsdp::schedule
