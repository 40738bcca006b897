#include "schedule/residency.h"

#include <algorithm>

namespace fsdp::schedule {

Residency::Residency(std::vector<UnitProgress>& progress, int buffers, FullUntil full_until)
    : full_until_(full_until),
      progress_(progress),
      places_(progress.size()),
      occupants_(full_until == FullUntil::BufferNeeded ? buffers : static_cast<int>(progress.size())) {}

void Residency::demand(UnitId unit, const UseOrder& order, Actions& actions) {
  if (state(unit) != State::Sharded) return;
  gather(unit, make_room(order, actions), order.on_plan(), actions);
}

int Residency::make_room(const UseOrder& order, Actions& actions) {
  if (const std::optional<int> buffer = free_buffer()) return *buffer;
  if (const std::optional<UnitId> victim = farthest(order, {})) {
    await(*victim, actions);  // gathered ahead, and then not needed
    const int buffer = places_[*victim].buffer;
    release(*victim, actions);
    return buffer;
  }
  occupants_.emplace_back();
  return buffers() - 1;
}

void Residency::hold(UnitId unit, bool foreseen, const UseOrder& order, Actions& actions) {
  ++progress_[unit].holds;
  if (state(unit) != State::Sharded) return;
  gather(unit, shares_buffers() ? make_room(order, actions) : unit, foreseen, actions);
}

void Residency::let_go(std::span<const UnitId> units, Actions& actions) {
  for (UnitId unit : units) progress_[unit].holds = std::max(progress_[unit].holds - 1, 0);
  if (!shares_buffers()) return release_all(FullUntil::EndOfBackward, actions);
  for (UnitId unit : units) {
    if (stays(unit) || state(unit) == State::Sharded) continue;
    await(unit, actions);
    release(unit, actions);
  }
}

void Residency::prefetch(UnitId unit, const UseOrder& order, std::span<const UnitId> busy, Actions& actions) {
  if (state(unit) != State::Sharded) return;
  std::optional<int> buffer = free_buffer();
  if (!buffer) {
    std::optional<UnitId> victim = farthest(order, busy);
    if (!victim || state(*victim) == State::Gathering || order.distance(*victim) <= order.distance(unit)) return;
    buffer = places_[*victim].buffer;
    release(*victim, actions);
  }
  gather(unit, *buffer, order.on_plan(), actions);
}

void Residency::demand_all(Actions& actions) {
  for (UnitId unit = 0; unit < static_cast<UnitId>(progress_.size()); ++unit) {
    if (state(unit) == State::Sharded && !progress_[unit].given_up) gather(unit, unit, true, actions);
  }
}

void Residency::await(UnitId unit, Actions& actions) {
  if (state(unit) != State::Gathering) return;
  actions.push_back({Action::Kind::WaitGather, unit});
  progress_[unit].full = State::Full;
}

void Residency::give_up(UnitId unit, Actions& actions) {
  progress_[unit].given_up = true;
  await(unit, actions);
  if (state(unit) == State::Full) release(unit, actions);
}

void Residency::gather_next(UnitId unit, Actions& actions) {
  const std::optional<int> buffer = shares_buffers() ? free_buffer() : unit;
  if (buffer) gather(unit, *buffer, true, actions);
}

int Residency::gathered_next() const {
  return static_cast<int>(std::ranges::count_if(progress_, &UnitProgress::gathered_next));
}

void Residency::release_all(FullUntil end, Actions& actions, const UseOrder* order) {
  for (UnitProgress& unit : progress_) {
    unit.given_up = false;
    if (end == FullUntil::ShardsChange) unit.holds = 0;
  }
  if (full_until_ > end || (!shares_buffers() && holds_any())) return;
  for (std::optional<UnitId> unit : std::vector(occupants_)) {
    if (!unit || stays(*unit)) continue;
    if (order != nullptr && order->distance(*unit) != UseOrder::kNever) continue;
    await(*unit, actions);
    release(*unit, actions);
  }
}

void Residency::gather(UnitId unit, int buffer, bool foreseen, Actions& actions) {
  actions.push_back({Action::Kind::Gather, unit, buffer, foreseen});
  progress_[unit].full = State::Gathering;
  places_[unit].buffer = buffer;
  occupants_[buffer] = unit;
}

void Residency::release(UnitId unit, Actions& actions) {
  actions.push_back({Action::Kind::Release, unit, places_[unit].buffer});
  occupants_[places_[unit].buffer].reset();
  progress_[unit].full = State::Sharded;
  places_[unit].buffer = -1;
}

std::optional<int> Residency::free_buffer() const {
  auto free = std::find(occupants_.begin(), occupants_.end(), std::nullopt);
  return free == occupants_.end() ? std::nullopt : std::optional(static_cast<int>(free - occupants_.begin()));
}

std::optional<UnitId> Residency::farthest(const UseOrder& order, std::span<const UnitId> busy) const {
  std::optional<UnitId> best;
  for (std::optional<UnitId> unit : occupants_) {
    if (!unit || stays(*unit)) continue;
    if (std::find(busy.begin(), busy.end(), *unit) != busy.end()) continue;
    if (best) {
      int distance = order.distance(*unit), least = order.distance(*best);
      if (distance < least || (distance == least && places_[*unit].last_use > places_[*best].last_use)) continue;
    }
    best = unit;
  }
  return best;
}

}  // namespace fsdp::schedule
