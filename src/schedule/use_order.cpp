#include "schedule/use_order.h"

#include <set>

namespace fsdp::schedule {

size_t UseOrder::next() const {
  const size_t next = cursor_ ? *cursor_ + 1 : 0;
  return repeats_ && planned() ? next % plan_.size() : next;
}

// Something was skipped: goes on from the unit's next use, around the end if need be. Something was added: stays.
void UseOrder::lose_the_place(UnitId unit) {
  place_ = Place::Lost;
  const size_t begin = next();
  for (size_t step = 0; step < plan_.size(); ++step) {
    const size_t index = (begin + step) % plan_.size();
    if (plan_[index] == unit) {
      cursor_ = index;
      return;
    }
  }
}

void UseOrder::forget_place() {
  cursor_.reset();
  place_ = Place::Foreseen;
}

int UseOrder::distance(UnitId unit) const {
  if (suspended_) return kNever;
  const size_t begin = cursor_ ? *cursor_ + 1 : 0;
  const size_t end = repeats_ ? begin + plan_.size() : plan_.size();
  for (size_t index = begin; index < end; ++index) {
    if (plan_[index % plan_.size()] == unit) return static_cast<int>(index - begin) + 1;
  }
  return kNever;
}

int UseOrder::units_left() const {
  const auto now = plan_.begin() + static_cast<std::ptrdiff_t>(cursor_.value_or(0));
  return static_cast<int>(std::set<UnitId>(now, plan_.end()).size());
}

std::optional<UnitId> UseOrder::ahead(int steps) const {
  if (suspended_) return std::nullopt;
  const size_t index = (cursor_ ? *cursor_ : size_t(-1)) + steps;
  return index < plan_.size() ? std::optional(plan_[index]) : std::nullopt;
}

}  // namespace fsdp::schedule
