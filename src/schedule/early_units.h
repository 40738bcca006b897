// How far each unit has come in a step that begins inside a backward. Pure; not for concurrent use.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "schedule/use_order.h"

namespace fsdp::schedule {

class EarlyUnits {
 public:
  explicit EarlyUnits(size_t units) : progress_(units, Progress::Old) {}

  // The unit's gradients have been reduced: it may be stepped when the backward is done with it.
  void reduced(UnitId unit) { candidates_.push_back(unit); }
  const std::vector<UnitId>& candidates() const { return candidates_; }
  void forget_candidates() { candidates_.clear(); }
  // This rank uses the unit no more, and peers may write it.
  void leave(UnitId unit) { progress_[unit] = Progress::Left; }
  void stepped(UnitId unit) {
    progress_[unit] = Progress::Stepped;
    std::erase(candidates_, unit);
  }
  // The step is over.
  void reset() {
    candidates_.clear();
    std::fill(progress_.begin(), progress_.end(), Progress::Old);
  }

  bool has_left(UnitId unit) const { return progress_[unit] != Progress::Old; }
  bool has_stepped(UnitId unit) const { return progress_[unit] == Progress::Stepped; }
  bool left_any() const {
    return std::any_of(progress_.begin(), progress_.end(), [](Progress one) { return one != Progress::Old; });
  }
  bool stepped_any() const { return std::ranges::find(progress_, Progress::Stepped) != progress_.end(); }

 private:
  enum class Progress : uint8_t { Old, Left, Stepped };

  std::vector<Progress> progress_;
  std::vector<UnitId> candidates_;  // reduced and not stepped
};

}  // namespace fsdp::schedule
