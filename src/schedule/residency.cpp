#include "schedule/residency.h"

#include <algorithm>

namespace fsdp::schedule {

Residency::Residency(int units, int buffers, FullUntil full_until)
    : full_until_(full_until), units_(units), occupants_(full_until == FullUntil::BufferNeeded ? buffers : units) {}

void Residency::demand(UnitId unit, const UseOrder& order, Actions& actions) {
  if (state(unit) != State::Sharded) return;
  std::optional<int> buffer = free_buffer();
  if (!buffer) {
    if (std::optional<UnitId> victim = farthest(order, {})) {
      await(*victim, actions);  // gathered ahead, and then not needed
      buffer = units_[*victim].buffer;
      release(*victim, actions);
    } else {
      buffer = buffers();
      occupants_.emplace_back();
    }
  }
  gather(unit, *buffer, order.on_plan(), actions);
}

void Residency::prefetch(UnitId unit, const UseOrder& order, std::span<const UnitId> busy, Actions& actions) {
  if (state(unit) != State::Sharded) return;
  std::optional<int> buffer = free_buffer();
  if (!buffer) {
    std::optional<UnitId> victim = farthest(order, busy);
    if (!victim || state(*victim) == State::Gathering || order.distance(*victim) <= order.distance(unit)) return;
    buffer = units_[*victim].buffer;
    release(*victim, actions);
  }
  gather(unit, *buffer, order.on_plan(), actions);
}

void Residency::demand_all(Actions& actions) {
  for (UnitId unit = 0; unit < static_cast<UnitId>(units_.size()); ++unit) {
    if (state(unit) == State::Sharded && units_[unit].use == Use::Now) gather(unit, unit, true, actions);
  }
}

void Residency::await(UnitId unit, Actions& actions) {
  if (state(unit) != State::Gathering) return;
  actions.push_back({Action::Kind::WaitGather, unit});
  units_[unit].state = State::Full;
}

void Residency::release_early(UnitId unit, Actions& actions) {
  units_[unit].use = Use::Over;
  await(unit, actions);
  if (state(unit) == State::Full) release(unit, actions);
}

void Residency::gather_next(UnitId unit, Actions& actions) {
  const std::optional<int> buffer = shares_buffers() ? free_buffer() : unit;
  if (state(unit) != State::Sharded || !buffer) return;
  if (units_[unit].use == Use::Over) units_[unit].use = Use::Next;
  gather(unit, *buffer, true, actions);
}

int Residency::gathered_early() const { return static_cast<int>(std::ranges::count(units_, Use::Next, &Unit::use)); }

void Residency::release_all(FullUntil end, Actions& actions) {
  if (full_until_ <= end) {
    for (std::optional<UnitId> unit : std::vector(occupants_)) {
      if (!unit || pinned(*unit) || gathered_early(*unit)) continue;
      await(*unit, actions);
      release(*unit, actions);
    }
  }
  for (Unit& unit : units_) {
    if (unit.use == Use::Over || end == FullUntil::ShardsChange) unit.use = Use::Now;
  }
}

void Residency::gather(UnitId unit, int buffer, bool foreseen, Actions& actions) {
  actions.push_back({Action::Kind::Gather, unit, buffer, foreseen});
  units_[unit].state = State::Gathering;
  units_[unit].buffer = buffer;
  occupants_[buffer] = unit;
}

void Residency::release(UnitId unit, Actions& actions) {
  actions.push_back({Action::Kind::Release, unit, units_[unit].buffer});
  occupants_[units_[unit].buffer].reset();
  units_[unit].state = State::Sharded;
  units_[unit].buffer = -1;
}

std::optional<int> Residency::free_buffer() const {
  auto free = std::find(occupants_.begin(), occupants_.end(), std::nullopt);
  return free == occupants_.end() ? std::nullopt : std::optional(static_cast<int>(free - occupants_.begin()));
}

std::optional<UnitId> Residency::farthest(const UseOrder& order, std::span<const UnitId> busy) const {
  std::optional<UnitId> best;
  for (std::optional<UnitId> unit : occupants_) {
    if (!unit || pinned(*unit) || gathered_early(*unit)) continue;
    if (std::find(busy.begin(), busy.end(), *unit) != busy.end()) continue;
    if (best) {
      int distance = order.distance(*unit), least = order.distance(*best);
      if (distance < least || (distance == least && units_[*unit].last_use > units_[*best].last_use)) continue;
    }
    best = unit;
  }
  return best;
}

}  // namespace fsdp::schedule
