#include "schedule/reductions.h"

#include <algorithm>
#include <utility>

namespace fsdp::schedule {

namespace {

// Where the number of uses depends on the data, there is always another.
constexpr size_t kMostForecasts = 8;

// In backwards. A peer that stalls may do so in every step, and each wait for it takes time.
constexpr int kKeepsLent = 8;

}  // namespace

Reductions::Reductions(int units, int buffers)
    : units_(units), shares_buffers_(buffers < units), occupants_(buffers, -1) {}

void Reductions::use(std::span<const UnitId> units, std::span<const int> forward_uses, bool again, Actions& actions) {
  ++uses_;
  for (UnitId unit : units) {
    Unit& state = units_[unit];
    ++state.now.uses;
    state.now.last_use = uses_;
    const int lag = recorded_ ? forecast_of(state, forward_uses[unit]).lag : 0;
    if (lag >= 0) look_at(unit, lag);
  }
  if (!again || recorded_) goes_on(forward_uses, actions);  // else they stay due
}

void Reductions::goes_on(std::span<const int> forward_uses, Actions& actions) {
  std::vector<UnitId> due;
  for (; !due_.empty() && due_.begin()->first <= uses_; due_.erase(due_.begin()))
    due.insert(due.end(), due_.begin()->second.begin(), due_.begin()->second.end());
  if (local_ || !alike_) return;
  std::ranges::sort(due);
  for (UnitId unit : due) {
    Unit& state = units_[unit];
    if (state.now.over || !is_over(state, forward_uses[unit])) continue;
    state.now.over = true;
    if (state.now.begun == 0) open(unit, actions);
    if (state.state == State::Open) reduce(unit, actions);
  }
}

// After a number of uses that no backward has followed yet: at least as many as in the forward, and in the last one.
Reductions::Forecast Reductions::forecast_of(const Unit& unit, int forward_uses) {
  const auto known = std::ranges::find(unit.forecasts, forward_uses, &Forecast::forward_uses);
  if (known != unit.forecasts.end()) return *known;
  Forecast forecast = unit.forecasts.back();
  forecast.uses = std::max(forecast.uses, forward_uses);
  return forecast;
}

bool Reductions::is_over(const Unit& unit, int forward_uses) const {
  if (unit.now.uses == 0) return false;
  if (recorded_) {
    const Forecast forecast = forecast_of(unit, forward_uses);
    return forecast.lag >= 0 && unit.now.uses >= forecast.uses && uses_ > unit.now.last_use + forecast.lag;
  }
  // A unit that was used more than once may get gradients at any time.
  return unit.now.arrived > 0 && forward_uses <= 1 && uses_ > unit.now.last_use;
}

void Reductions::open(UnitId unit, Actions& actions) {
  if (units_[unit].state == State::Open) return;
  if (units_[unit].state == State::Reducing) wait(unit, actions);
  int buffer = take_buffer(unit, actions);
  occupants_[buffer] = unit;
  units_[unit].state = State::Open;
  units_[unit].buffer = buffer;
  units_[unit].now.late = false;
  most_open_ = std::max(most_open_, ++open_);
  actions.push_back({Action::Kind::OpenGradient, unit, buffer});
}

void Reductions::arrived(UnitId unit, int trainable, int forward_uses, Actions& actions) {
  Unit& state = units_[unit];
  if (state.trainable != trainable) state.most_gradients = 0;  // frozen or unfrozen since
  state.trainable = trainable;
  ++state.now.arrived;
  state.now.lag = uses_ - state.now.last_use;
  if (!recorded_) look_at(unit, 0);  // it may have been too early before
  if (local_) return;
  // Before anything is recorded, a unit that was used more than once may get its gradients in several rounds.
  const int guess = forward_uses > 1 ? 0 : trainable;
  // A parameter that had no gradient so far may get one now, as experts do: until all have, being over decides.
  if (state.now.arrived == (state.most_gradients > 0 ? std::max(state.most_gradients, trainable) : guess))
    reduce(unit, actions);
}

bool Reductions::complete(UnitId unit) const {
  const Unit& state = units_[unit];
  return state.state == State::Idle && state.now.begun == 1 && !state.now.late &&
         state.now.reduced == state.now.arrived && state.most_gradients > 0 &&
         state.now.arrived >= state.most_gradients;
}

int Reductions::take_buffer(UnitId unit, Actions& actions) {
  if (!shares_buffers_) return unit;
  auto free = std::find(occupants_.begin(), occupants_.end(), -1);
  if (free != occupants_.end()) return static_cast<int>(free - occupants_.begin());
  // One buffer beyond the units that stay open lets a reduction run while the next unit's gradients come.
  UnitId oldest = -1;
  const auto before = [this](UnitId a, UnitId b) {
    return std::pair(units_[a].stalls, units_[a].begun_at) < std::pair(units_[b].stalls, units_[b].begun_at);
  };
  bool any_stalled = false;
  for (UnitId unit : occupants_) {
    const Unit& state = units_[unit];
    any_stalled |= state.now.stalled;
    const bool under_way =
        state.state == State::Reducing && state.now.over && !state.now.stalled && state.now.begun == 1;
    if (under_way && (oldest < 0 || before(unit, oldest))) oldest = unit;
  }
  if (oldest < 0 || buffers() <= most_open_ || !alike_) {
    lent_ += (any_stalled || !alike_) && buffers() > most_open_;
    occupants_.push_back(-1);
    return buffers() - 1;
  }
  int buffer = units_[oldest].buffer;
  wait(oldest, actions, Action::Kind::WaitBuffer);
  return buffer;
}

int Reductions::stalls(UnitId unit, bool of_peer) {
  Unit& state = units_[unit];
  state.state = State::Reducing;
  state.now.stalled = true;
  state.stalls |= of_peer;
  peer_stalled_ |= of_peer;
  ++lent_;
  state.buffer = buffers();
  occupants_.push_back(unit);
  return state.buffer;
}

void Reductions::reduce(UnitId unit, Actions& actions) {
  Unit& state = units_[unit];
  state.state = State::Reducing;
  state.begun_at = ++clock_;
  ++state.now.begun;
  state.now.needed += state.now.arrived > state.now.reduced || state.carried;
  state.carried = false;
  state.now.reduced = state.now.arrived;
  --open_;
  order_.push_back(unit);
  actions.push_back({Action::Kind::Reduce, unit, state.buffer});
}

void Reductions::wait(UnitId unit, Actions& actions, Action::Kind kind) {
  actions.push_back({kind, unit, units_[unit].buffer});
  occupants_[units_[unit].buffer] = -1;
  units_[unit].state = State::Idle;
  units_[unit].buffer = -1;
}

UnitCounts Reductions::counts() const {
  UnitCounts counts;
  for (const Unit& unit : units_) {
    const bool needs_another = unit.state == State::Open || unit.now.late;
    const bool has_gradient = unit.now.needed > 0 || needs_another;
    counts.push_back({.reductions = unit.now.begun + needs_another,
                      .lag = has_gradient ? unit.now.lag : -1,
                      .gradients = unit.now.arrived});
  }
  return counts;
}

void Reductions::keep_late(UnitId unit) {
  Unit& state = units_[unit];
  state.now.late = true;
  ++state.now.arrived;
  state.now.lag = uses_ - state.now.last_use;
}

UnitCounts Reductions::begun() const {
  UnitCounts counts;
  for (const Unit& unit : units_) counts.push_back({.reductions = unit.now.begun});
  return counts;
}

void Reductions::begin_next(const UnitCounts& counts, Actions& actions) {
  if (local_) return;
  // Every first reduction is begun before any unit's second one waits for its first.
  UnitId next = -1;
  for (UnitId unit = 0; unit < static_cast<UnitId>(units_.size()); ++unit) {
    const bool wanted = units_[unit].now.begun < counts[unit].reductions;
    if (wanted && (next < 0 || units_[unit].now.begun < units_[next].now.begun)) next = unit;
  }
  if (next < 0) return;
  open(next, actions);
  reduce(next, actions);
  units_[next].now.over |= follows_;
}

void Reductions::repeat(Actions& actions) {
  if (local_) return;
  for (UnitId unit : last_order_) {
    if (units_[unit].now.begun > 0) continue;
    open(unit, actions);
    reduce(unit, actions);
    units_[unit].now.over = true;
  }
}

void Reductions::wait_all(Actions& actions) {
  for (UnitId unit : std::vector(occupants_)) {
    if (unit >= 0) wait(unit, actions);
  }
}

void Reductions::finish(const UnitCounts& counts, std::span<const int> forward_uses, Actions& actions) {
  if (local_) return begin_backward();
  wait_all(actions);
  if (follows_) return begin_backward();
  for (size_t i = 0; i < units_.size(); ++i) {
    Unit& unit = units_[i];
    // The most of any rank and backward: a rank that gets fewer is told by the unit's being over.
    unit.most_gradients = std::max(unit.most_gradients, static_cast<int>(counts[i].gradients));
    std::erase_if(unit.forecasts, [&](const Forecast& before) { return before.forward_uses == forward_uses[i]; });
    if (unit.forecasts.size() == kMostForecasts) unit.forecasts.erase(unit.forecasts.begin());
    unit.forecasts.push_back({forward_uses[i], unit.now.uses, static_cast<int>(counts[i].lag)});
  }
  recorded_ = true;
  begin_backward();
}

// As many buffers stay as a backward without stalls takes. Buffers with gradients of no_sync scopes stay as well.
void Reductions::give_up_lent() {
  keeps_lent_ = std::exchange(peer_stalled_, false) ? kKeepsLent : std::max(keeps_lent_ - 1, 0);
  if (keeps_lent_ > 0 || !alike_) return;
  for (; lent_ > 0 && occupants_.back() < 0 && buffers() > most_open_ + 1; --lent_) occupants_.pop_back();
  for (Unit& unit : units_) unit.stalls = false;
}

void Reductions::begin_backward() {
  give_up_lent();
  uses_ = 0;
  due_.clear();
  if (!order_.empty() && !follows_) last_order_ = std::move(order_);
  order_.clear();
  follows_ = false;
  for (Unit& unit : units_) {
    unit.now = {};
    unit.carried = unit.state == State::Open;
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
  }
  begin_backward();
}

}  // namespace fsdp::schedule
