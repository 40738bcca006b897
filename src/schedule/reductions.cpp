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

Reductions::Reductions(std::vector<UnitProgress>& progress, int buffers)
    : progress_(progress),
      units_(progress.size()),
      shares_buffers_(buffers < static_cast<int>(progress.size())),
      occupants_(buffers, -1) {}

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
    if (state.now.over || !is_over(unit, forward_uses[unit])) continue;
    state.now.over = true;
    if (progress_[unit].reductions == 0) open(unit, actions);
    if (progress_[unit].gradients == State::Open) reduce(unit, actions);
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

bool Reductions::is_over(UnitId id, int forward_uses) const {
  const Unit& unit = units_[id];
  if (unit.now.uses == 0) return false;
  if (recorded_) {
    const Forecast forecast = forecast_of(unit, forward_uses);
    return forecast.lag >= 0 && unit.now.uses >= forecast.uses && uses_ > unit.now.last_use + forecast.lag;
  }
  // A unit that was used more than once may get gradients at any time.
  return progress_[id].arrived > 0 && forward_uses <= 1 && uses_ > unit.now.last_use;
}

void Reductions::open(UnitId unit, Actions& actions) {
  UnitProgress& progress = progress_[unit];
  if (progress.gradients == State::Open) return;
  if (progress.gradients == State::Reducing) wait(unit, actions);
  int buffer = take_buffer(unit, actions);
  occupants_[buffer] = unit;
  progress.gradients = State::Open;
  progress.late = false;
  units_[unit].buffer = buffer;
  most_open_ = std::max(most_open_, ++open_);
  actions.push_back({Action::Kind::OpenGradient, unit, buffer});
}

void Reductions::arrived(UnitId unit, int trainable, int forward_uses, Actions& actions) {
  Unit& state = units_[unit];
  UnitProgress& progress = progress_[unit];
  if (state.trainable != trainable) progress.most = 0;  // frozen or unfrozen since
  state.trainable = trainable;
  ++progress.arrived;
  state.now.lag = uses_ - state.now.last_use;
  if (!recorded_) look_at(unit, 0);  // it may have been too early before
  if (local_) return;
  // Before anything is recorded, a unit that was used more than once may get its gradients in several rounds.
  const int guess = forward_uses > 1 ? 0 : trainable;
  // A parameter that had no gradient so far may get one now, as experts do: until all have, being over decides.
  if (progress.arrived == (progress.most > 0 ? std::max(progress.most, trainable) : guess)) reduce(unit, actions);
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
    const bool under_way = progress_[unit].gradients == State::Reducing && state.now.over && !state.now.stalled &&
                           progress_[unit].reductions == 1;
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
  progress_[unit].gradients = State::Reducing;
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
  UnitProgress& progress = progress_[unit];
  progress.gradients = State::Reducing;
  state.begun_at = ++clock_;
  ++progress.reductions;
  state.now.needed += progress.arrived > progress.reduced || state.carried;
  state.carried = false;
  progress.reduced = progress.arrived;
  --open_;
  order_.push_back(unit);
  actions.push_back({Action::Kind::Reduce, unit, state.buffer});
}

void Reductions::wait(UnitId unit, Actions& actions, Action::Kind kind) {
  actions.push_back({kind, unit, units_[unit].buffer});
  occupants_[units_[unit].buffer] = -1;
  progress_[unit].gradients = State::Idle;
  units_[unit].buffer = -1;
}

UnitCounts Reductions::counts() const {
  UnitCounts counts;
  for (size_t id = 0; id < units_.size(); ++id) {
    const Unit& unit = units_[id];
    const UnitProgress& progress = progress_[id];
    const bool needs_another = progress.gradients == State::Open || progress.late;
    const bool has_gradient = unit.now.needed > 0 || needs_another;
    counts.push_back({.reductions = progress.reductions + needs_another,
                      .lag = has_gradient ? unit.now.lag : -1,
                      .gradients = progress.arrived,
                      .changed = progress.stepped()});
  }
  return counts;
}

void Reductions::keep_late(UnitId unit) {
  Unit& state = units_[unit];
  progress_[unit].late = true;
  ++progress_[unit].arrived;
  state.now.lag = uses_ - state.now.last_use;
}

UnitCounts Reductions::begun() const {
  UnitCounts counts;
  for (const UnitProgress& progress : progress_) counts.push_back({.reductions = progress.reductions});
  return counts;
}

void Reductions::begin_next(const UnitCounts& counts, Actions& actions) {
  if (local_) return;
  // Every first reduction is begun before any unit's second one waits for its first.
  UnitId next = -1;
  for (UnitId unit = 0; unit < static_cast<UnitId>(units_.size()); ++unit) {
    const bool wanted = progress_[unit].reductions < counts[unit].reductions;
    if (wanted && (next < 0 || progress_[unit].reductions < progress_[next].reductions)) next = unit;
  }
  if (next < 0) return;
  open(next, actions);
  reduce(next, actions);
  units_[next].now.over |= follows_;
}

void Reductions::repeat(Actions& actions) {
  if (local_) return;
  for (UnitId unit : last_order_) {
    if (progress_[unit].reductions > 0) continue;
    open(unit, actions);
    reduce(unit, actions);
    units_[unit].now.over = true;
  }
}

// Ranks may have units in different buffers. All wait in the same order: a rank that waits for its device takes part in
// nothing else meanwhile.
void Reductions::wait_all(Actions& actions) {
  std::vector<UnitId> units = occupants_;
  std::ranges::sort(units);
  for (UnitId unit : units) {
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
    progress_[i].most = std::max(progress_[i].most, static_cast<int>(counts[i].gradients));
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
  for (size_t id = 0; id < units_.size(); ++id) {
    units_[id].now = {};
    units_[id].carried = progress_[id].gradients == State::Open;
    progress_[id].begin_backward();
  }
}

void Reductions::abandon(Actions& actions) {
  for (UnitId unit = 0; unit < static_cast<UnitId>(units_.size()); ++unit) {
    Unit& state = units_[unit];
    if (progress_[unit].gradients == State::Reducing) wait(unit, actions);
    if (progress_[unit].gradients == State::Open) {
      occupants_[state.buffer] = -1;
      state.buffer = -1;
      progress_[unit].gradients = State::Idle;
      --open_;
    }
  }
  begin_backward();
}

}  // namespace fsdp::schedule
