// Which units are full, and in which buffer: the part of the schedule that gathers and releases.
//
// Units share a few buffers, or each has its own and stays full. Then all are gathered at the first use of any, in
// their order, so ranks may use different units at different times.
//
// A unit that an operator runs on is pinned and never released. A gather under way is not given up: it is waited for
// first. Pure; not for concurrent use.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "schedule/action.h"
#include "schedule/unit_progress.h"

namespace fsdp::schedule {

// Until when a unit stays full.
enum class FullUntil {
  BufferNeeded,   // by another unit, or the end of backward, or a change of the shards
  EndOfBackward,  // or a change of the shards
  ShardsChange,
};

class Residency {
 public:
  // `buffers` counts where units share them.
  // The progress of the units, which outlives it.
  Residency(std::vector<UnitProgress>& progress, int buffers, FullUntil full_until);

  using State = UnitProgress::Full;
  State state(UnitId unit) const { return progress_[unit].full; }
  bool pinned(UnitId unit) const { return progress_[unit].pinned(); }
  int buffers() const { return static_cast<int>(occupants_.size()); }

  void pin(UnitId unit) { ++progress_[unit].pins; }
  void unpin(UnitId unit) { --progress_[unit].pins; }
  void touch(UnitId unit) { places_[unit].last_use = ++clock_; }

  // Begins a gather unless the unit is full or under way. Takes a free buffer, or that of the unit whose next use is
  // farthest; where all are pinned there is one more buffer from now on.
  void demand(UnitId unit, const UseOrder& order, Actions& actions);
  // Begins one ahead of time: only in a free buffer or in place of a unit, not in `busy`, that is needed later.
  void prefetch(UnitId unit, const UseOrder& order, std::span<const UnitId> busy, Actions& actions);
  // Where units do not share buffers: begins to gather all that are not full.
  void demand_all(Actions& actions);
  // True if a caller holds any unit: then it gathers the units of the step.
  bool holds_any() const { return std::ranges::any_of(progress_, &UnitProgress::held); }
  bool shares_buffers() const { return full_until_ == FullUntil::BufferNeeded; }
  // The unit is gathered and stays until as many `let_go` or the end ShardsChange, whatever is used meanwhile.
  // `foreseen`: every rank begins the gather at the same place.
  void hold(UnitId unit, bool foreseen, const UseOrder& order, Actions& actions);
  // Units that nothing else keeps go. Where units do not share buffers, all go with the last that is held.
  void let_go(std::span<const UnitId> units, Actions& actions);
  // Ends the gather under way, if there is one.
  void await(UnitId unit, Actions& actions);
  // The unit goes, and is neither gathered with all others nor needed before `release_all`.
  void give_up(UnitId unit, Actions& actions);
  // After a change of the unit's shard: begins a gather for the next micro-batch, only in a free buffer. If the shard
  // was stepped inside this backward, the unit stays until the others' shards have changed.
  void gather_next(UnitId unit, Actions& actions);
  // How many units were gathered so.
  int gathered_next() const;
  // The number of a free buffer, or of one more.
  int spare_buffer() const { return free_buffer().value_or(buffers()); }
  // `end` has come: everything goes that is full until then at most, and neither pinned nor held. Units that `order`,
  // if there is one, uses again stay.
  void release_all(FullUntil end, Actions& actions, const UseOrder* order = nullptr);

 private:
  struct Place {
    int buffer = -1;
    uint64_t last_use = 0;
  };

  // The unit does not go while others need buffers.
  bool stays(UnitId unit) const { return pinned(unit) || progress_[unit].held() || progress_[unit].gathered_next(); }
  // A free buffer, that of the farthest unit, which goes, or one more.
  int make_room(const UseOrder& order, Actions& actions);
  void gather(UnitId unit, int buffer, bool foreseen, Actions& actions);
  void release(UnitId unit, Actions& actions);
  std::optional<int> free_buffer() const;
  // The unit that may go, with the farthest next use and then the longest unused. Not one of `busy`.
  std::optional<UnitId> farthest(const UseOrder& order, std::span<const UnitId> busy) const;

  FullUntil full_until_;
  std::vector<UnitProgress>& progress_;
  std::vector<Place> places_;
  std::vector<std::optional<UnitId>> occupants_;  // of each buffer
  uint64_t clock_ = 0;
};

}  // namespace fsdp::schedule
