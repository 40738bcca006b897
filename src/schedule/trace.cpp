#include "schedule/trace.h"

#include <algorithm>
#include <set>

namespace fsdp::schedule {

namespace {

// A recording that never repeats is of no use as a plan; this bounds what it costs.
constexpr size_t kLongestRecording = 1 << 16;

}  // namespace

void Trace::use(UnitId unit) {
  if (planned()) follow(unit);
  if (recorded_.size() >= kLongestRecording) {
    if (kind_ == Kind::Linear) return;
    forget_recording();
  }
  recorded_.push_back(unit);
  if (kind_ == Kind::Cyclic) detect_repetition();
}

void Trace::follow(UnitId unit) {
  size_t next = cursor_ ? *cursor_ + 1 : 0;
  if (kind_ == Kind::Cyclic) next %= plan_.size();
  if (next < plan_.size() && plan_[next] == unit) {
    cursor_ = next;
    if (kind_ == Kind::Cyclic && next == 0 && on_plan_) forget_recording();  // another pass begins
    return;
  }
  on_plan_ = false;
  // Something was skipped: go on from the unit's next use, around the end if need be. Something was added: stay.
  for (size_t step = 0; step < plan_.size(); ++step) {
    size_t index = (next + step) % plan_.size();
    if (plan_[index] == unit) {
      cursor_ = index;
      return;
    }
  }
}

// The recording repeats itself when as many uses in a row as lie between two of one unit are those of one round before.
void Trace::detect_repetition() {
  if (on_plan()) return;
  const size_t now = recorded_.size() - 1;
  if (lag_ > 0 && recorded_[now] == recorded_[now - lag_]) {
    ++repeated_;
  } else {
    const auto before = std::find(recorded_.rbegin() + 1, recorded_.rend(), recorded_[now]);
    lag_ = before == recorded_.rend() ? 0 : static_cast<size_t>(before - recorded_.rbegin());
    repeated_ = 1;
  }
  if (lag_ == 0 || repeated_ < lag_) return;
  const UnitId first = planned() ? plan_.front() : recorded_.front();
  plan_.assign(recorded_.end() - static_cast<std::ptrdiff_t>(lag_), recorded_.end());
  const auto begin = std::ranges::find(plan_, first);
  const auto behind = static_cast<size_t>(plan_.end() - begin);
  if (behind > 0) std::rotate(plan_.begin(), begin, plan_.end());
  cursor_ = (behind > 0 ? behind : plan_.size()) - 1;
  forget_recording();
  on_plan_ = true;
}

void Trace::forget_recording() {
  recorded_.clear();
  lag_ = repeated_ = 0;
}

void Trace::finish() {
  // While a cyclic plan is followed, the recording is cut where the caller stopped, not where the period ends.
  bool keep = recorded_.empty() || recorded_.size() >= kLongestRecording || (kind_ == Kind::Cyclic && on_plan());
  if (!keep) {
    plan_ = std::move(recorded_);
    if (kind_ == Kind::Cyclic && plan_.size() > 1 && plan_.front() == plan_.back()) plan_.pop_back();
  }
  begin_period();
}

void Trace::abandon() { begin_period(); }

void Trace::begin_period() {
  forget_recording();
  cursor_.reset();
  on_plan_ = true;
}

int Trace::distance(UnitId unit) const {
  if (suspended_) return kNever;
  size_t next = cursor_ ? *cursor_ + 1 : 0;
  size_t end = kind_ == Kind::Cyclic ? next + plan_.size() : plan_.size();
  for (size_t index = next; index < end; ++index) {
    if (plan_[index % plan_.size()] == unit) return static_cast<int>(index - next) + 1;
  }
  return kNever;
}

int Trace::distance_from_begin(UnitId unit) const {
  const auto first = std::ranges::find(plan_, unit);
  return first == plan_.end() ? kNever : static_cast<int>(first - plan_.begin()) + 1;
}

int Trace::units_left() const {
  const auto now = plan_.begin() + static_cast<std::ptrdiff_t>(cursor_.value_or(0));
  return static_cast<int>(std::set<UnitId>(now, plan_.end()).size());
}

std::optional<UnitId> Trace::ahead(int steps) const {
  if (suspended_) return std::nullopt;
  size_t index = (cursor_ ? *cursor_ : size_t(-1)) + steps;
  return index < plan_.size() ? std::optional(plan_[index]) : std::nullopt;
}

}  // namespace fsdp::schedule
