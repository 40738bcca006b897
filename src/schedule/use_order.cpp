#include "schedule/use_order.h"

#include <algorithm>
#include <set>
#include <utility>

namespace fsdp::schedule {

void UseOrder::set_plan(std::vector<UnitId> plan) {
  plan_ = std::move(plan);
  for (auto& places : places_) places.clear();
  for (size_t place = 0; place < plan_.size(); ++place) {
    const auto unit = static_cast<size_t>(plan_[place]);
    if (unit >= places_.size()) places_.resize(unit + 1);
    places_[unit].push_back(place);
  }
}

size_t UseOrder::next_use(UnitId unit, size_t place) const {
  const std::vector<size_t>& places = places_[unit];
  const auto next = std::ranges::lower_bound(places, place);
  return next == places.end() ? places.front() : *next;
}

size_t UseOrder::next() const {
  const size_t next = cursor_ ? *cursor_ + 1 : 0;
  return repeats_ && planned() ? next % plan_.size() : next;
}

// Something was skipped: goes on from the unit's next use, around the end if need be. Something was added: stays.
void UseOrder::lose_the_place(UnitId unit) {
  place_ = Place::Lost;
  if (uses(unit)) cursor_ = next_use(unit, next());
}

void UseOrder::forget_place() {
  cursor_.reset();
  place_ = Place::Foreseen;
}

int UseOrder::distance(UnitId unit) const {
  if (suspended_ || !uses(unit)) return kNever;
  const size_t begin = cursor_ ? *cursor_ + 1 : 0;
  const size_t place = next_use(unit, begin);
  if (place >= begin) return static_cast<int>(place - begin) + 1;
  return repeats_ ? static_cast<int>(place + plan_.size() - begin) + 1 : kNever;
}

bool UseOrder::uses_fewer_than(int units) const {
  std::set<UnitId> left;
  for (size_t place = cursor_.value_or(0); place < plan_.size() && std::ssize(left) < units; ++place)
    left.insert(plan_[place]);
  return std::ssize(left) < units;
}

std::optional<UnitId> UseOrder::ahead(int steps) const {
  if (suspended_) return std::nullopt;
  const size_t index = (cursor_ ? *cursor_ : size_t(-1)) + steps;
  return index < plan_.size() ? std::optional(plan_[index]) : std::nullopt;
}

}  // namespace fsdp::schedule
