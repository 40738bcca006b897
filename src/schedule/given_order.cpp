#include "schedule/given_order.h"

#include <algorithm>
#include <ranges>

namespace fsdp::schedule {

void GivenOrder::give(std::vector<Segment> segments) {
  segments_ = std::move(segments);
  end_step();
}

// The present segment is of the named micro-batch and of this direction.
bool GivenOrder::goes_on(bool backward) const {
  return segment_ && !is_named_anew_ && segments_[*segment_].micro_batch == *named_ &&
         segments_[*segment_].backward == backward;
}

void GivenOrder::begin_segment(bool backward) {
  end_segment();
  is_named_anew_ = false;
  const size_t next = segment_ ? *segment_ + 1 : 0;
  const bool comes =
      next < segments_.size() && segments_[next].micro_batch == *named_ && segments_[next].backward == backward;
  if (!comes) {
    lose();
    return;
  }
  segment_ = next;
  cursor_ = begins_[next] == 0 ? std::nullopt : std::optional(begins_[next] - 1);
  place_ = uses_.contains(kind_of(segments_[next])) ? Place::Foreseen : Place::Lost;
}

void GivenOrder::use(UnitId unit, Mode mode) {
  if (suspended() || lost_ || !given() || !named_) return;
  const bool backward = mode == Mode::Backward;
  if (!goes_on(backward)) begin_segment(backward);
  if (lost_) return;
  const size_t here = next();
  const auto known = uses_.find(kind_of(segments_[*segment_]));
  const bool within = known != uses_.end() && recorded_.size() < known->second.size();
  if (within && place_ == Place::Foreseen && here < plan().size() && plan()[here] == unit) {
    cursor_ = here;
  } else if (known != uses_.end()) {
    lose_the_place(unit);
  }
  if (recorded_.size() < kLongestRecording) recorded_.push_back(unit);
}

// Its kind has these uses from now on.
void GivenOrder::end_segment() {
  const std::vector<UnitId> recorded = std::exchange(recorded_, {});
  if (!segment_ || lost_ || recorded.empty()) return;
  std::vector<UnitId>& known = uses_[kind_of(segments_[*segment_])];
  if (known == recorded) return;
  known = recorded;
  make_plan();
}

void GivenOrder::make_plan() {
  std::vector<UnitId> plan;
  begins_.clear();
  for (const Segment& segment : segments_) {
    begins_.push_back(plan.size());
    const auto known = uses_.find(kind_of(segment));
    if (known != uses_.end()) plan.insert(plan.end(), known->second.begin(), known->second.end());
  }
  set_plan(std::move(plan));
}

void GivenOrder::end_step() {
  end_segment();
  segment_.reset();
  lost_ = false;
  forget_place();
  make_plan();
}

void GivenOrder::abandon() {
  recorded_.clear();
  lose();
}

// Nothing is foreseen up to the end of the step.
void GivenOrder::lose() {
  lost_ = true;
  place_ = Place::Lost;
  cursor_ = plan().size();
}

void GivenOrder::forget_all() {
  uses_.clear();
  recorded_.clear();
  end_step();
}

bool GivenOrder::begins_next_step_with(UnitId unit, int uses) const {
  const auto first = plan() | std::views::take(uses);
  return std::ranges::find(first, unit) != first.end();
}

std::vector<int> GivenOrder::learnt() const {
  std::vector<int> numbers;
  for (const Segment& segment : segments_) {
    numbers.insert(numbers.end(), {segment.stage, int{segment.backward}, static_cast<int>(segment.micro_batch),
                                   static_cast<int>(segment.micro_batch >> 32)});
  }
  for (const auto& [kind, uses] : uses_) {
    numbers.insert(numbers.end(), {kind.first, int{kind.second}, static_cast<int>(uses.size())});
    numbers.insert(numbers.end(), uses.begin(), uses.end());
  }
  numbers.push_back(lost_ ? -2 : segment_ ? static_cast<int>(*segment_) : -1);
  return numbers;
}

}  // namespace fsdp::schedule
