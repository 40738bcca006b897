#include "schedule/reductions.h"

#include <algorithm>

namespace fsdp::schedule {

Reductions::Reductions(int units, int buffers) : units_(units), occupants_(buffers, -1) {}

void Reductions::open(UnitId unit, Actions& actions) {
  if (units_[unit].state == State::Open) return;
  if (units_[unit].state == State::Reducing) wait(unit, actions);
  int buffer = take_buffer(actions);
  occupants_[buffer] = unit;
  units_[unit].state = State::Open;
  units_[unit].buffer = buffer;
  most_open_ = std::max(most_open_, ++open_);
  actions.push_back({Action::Kind::OpenGradient, unit, buffer});
}

void Reductions::arrived(UnitId unit, int complete_at, Actions& actions) {
  Unit& state = units_[unit];
  ++state.arrived;
  if (state.arrived == (state.expected > 0 ? state.expected : complete_at)) reduce(unit, actions);
}

int Reductions::take_buffer(Actions& actions) {
  auto free = std::find(occupants_.begin(), occupants_.end(), -1);
  if (free != occupants_.end()) return static_cast<int>(free - occupants_.begin());
  // One buffer beyond the units that stay open lets a reduction run while the next unit's gradients come.
  UnitId oldest = -1;
  for (UnitId unit : occupants_) {
    if (units_[unit].state == State::Reducing && (oldest < 0 || units_[unit].begun_at < units_[oldest].begun_at)) {
      oldest = unit;
    }
  }
  if (oldest < 0 || buffers() <= most_open_) {
    occupants_.push_back(-1);
    return buffers() - 1;
  }
  int buffer = units_[oldest].buffer;
  wait(oldest, actions);
  return buffer;
}

void Reductions::reduce(UnitId unit, Actions& actions) {
  Unit& state = units_[unit];
  state.state = State::Reducing;
  state.begun_at = ++clock_;
  ++state.begun;
  --open_;
  actions.push_back({Action::Kind::Reduce, unit, state.buffer});
}

void Reductions::wait(UnitId unit, Actions& actions) {
  actions.push_back({Action::Kind::WaitReduce, unit, units_[unit].buffer});
  occupants_[units_[unit].buffer] = -1;
  units_[unit].state = State::Idle;
  units_[unit].buffer = -1;
}

std::vector<uint8_t> Reductions::rounds() const {
  std::vector<uint8_t> rounds;
  for (const Unit& unit : units_) rounds.push_back(unit.begun + (unit.state == State::Open ? 1 : 0));
  return rounds;
}

void Reductions::finish(std::span<const uint8_t> rounds, Actions& actions) {
  for (UnitId unit = 0; unit < static_cast<UnitId>(units_.size()); ++unit) {
    while (units_[unit].begun < rounds[unit]) {
      open(unit, actions);
      reduce(unit, actions);
    }
  }
  for (UnitId unit : std::vector(occupants_)) {
    if (unit >= 0) wait(unit, actions);
  }
  for (Unit& unit : units_) {
    if (unit.arrived > 0) unit.expected = unit.arrived;
    unit.arrived = 0;
    unit.begun = 0;
  }
}

void Reductions::abandon(Actions& actions) {
  for (UnitId unit = 0; unit < static_cast<UnitId>(units_.size()); ++unit) {
    Unit& state = units_[unit];
    if (state.state == State::Reducing) wait(unit, actions);
    if (state.state == State::Open) {
      occupants_[state.buffer] = -1;
      state.buffer = -1;
      state.state = State::Idle;
      --open_;
    }
    state.arrived = 0;
    state.begun = 0;
  }
}

}  // namespace fsdp::schedule
