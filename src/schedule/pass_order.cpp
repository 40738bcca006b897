#include "schedule/pass_order.h"

#include <algorithm>
#include <utility>

namespace fsdp::schedule {

void PassOrder::use(UnitId unit) {
  if (suspended()) return;
  if (planned()) follow(unit);
  if (recorded_.size() >= kLongestRecording) forget_recording();
  recorded_.push_back(unit);
  detect_repetition();
}

void PassOrder::follow(UnitId unit) {
  if (plan()[next()] != unit) return lose_the_place(unit);
  cursor_ = next();
  if (cursor_ == 0 && on_plan()) forget_recording();  // another pass begins
}

// The recording repeats itself when as many uses in a row as lie between two of one unit are those of one round before.
void PassOrder::detect_repetition() {
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
  const UnitId first = planned() ? plan().front() : recorded_.front();
  std::vector<UnitId> pass(recorded_.end() - static_cast<std::ptrdiff_t>(lag_), recorded_.end());
  const auto begin = std::ranges::find(pass, first);
  const auto behind = static_cast<size_t>(pass.end() - begin);
  if (behind > 0) std::rotate(pass.begin(), begin, pass.end());
  set_plan(std::move(pass));
  forget_recording();
  forget_place();
  cursor_ = (behind > 0 ? behind : plan().size()) - 1;
}

void PassOrder::forget_recording() {
  recorded_.clear();
  lag_ = repeated_ = 0;
}

void PassOrder::forget_all() {
  set_plan({});
  forget_recording();
  forget_place();
}

void PassOrder::finish() {
  if (!recorded_.empty() && !suspended() && !on_plan()) {
    if (recorded_.size() > 1 && recorded_.front() == recorded_.back()) recorded_.pop_back();
    set_plan(std::move(recorded_));
  }
  forget_recording();
  forget_place();
}

std::vector<UnitId> PassOrder::take_beginning_of_training(UnitId next) {
  const bool whole = on_plan() && recorded_.size() == plan().size();
  if (recorded_.empty() || whole) return {};
  const UnitId first = planned() ? plan().front() : recorded_.front();
  const auto last_pass = std::find(recorded_.rbegin(), recorded_.rend(), first);
  if (next == first || last_pass == recorded_.rend()) return {};
  std::vector<UnitId> taken(last_pass.base() - 1, recorded_.end());
  recorded_.erase(last_pass.base() - 1, recorded_.end());
  return taken;
}

}  // namespace fsdp::schedule
