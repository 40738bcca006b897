#include "schedule/period_order.h"

#include <algorithm>
#include <ranges>
#include <utility>

namespace fsdp::schedule {

namespace {

// Where the order depends on the data, there is always another.
constexpr size_t kMostPeriods = 8;

}  // namespace

void PeriodOrder::use(UnitId unit, Mode mode) {
  if (suspended()) return;
  if (place_ == Place::Turned) place_ = Place::Foreseen;
  if (const size_t here = next(); here < plan().size() && plan()[here] == unit) {
    cursor_ = here;
  } else if (planned() && !turn(unit)) {
    lose_the_place(unit);
  }
  if (recorded_.size() >= kLongestRecording) return;
  if (mode == Mode::ForwardWithoutGradients && without_gradients_ == recorded_.size()) ++without_gradients_;
  recorded_.push_back(unit);
}

bool PeriodOrder::turn(UnitId unit) {
  if (place_ == Place::Lost) return false;
  const size_t here = recorded_.size();
  std::optional<size_t> latest;
  for (size_t i = 0; i < periods_.size(); ++i) {
    const std::vector<UnitId>& uses = periods_[i].uses;
    const bool fits =
        uses.size() > here && uses[here] == unit && std::equal(recorded_.begin(), recorded_.end(), uses.begin());
    if (fits && (!latest || periods_[*latest].ended_at < periods_[i].ended_at)) latest = i;
  }
  if (!latest) return false;
  expect(latest);
  cursor_ = here;
  place_ = Place::Turned;
  return true;
}

void PeriodOrder::finish() {
  if (!suspended() && !recorded_.empty() && recorded_.size() < kLongestRecording) {
    const size_t ended = learn();
    (previous_ ? periods_[*previous_].next : first_) = ended;
    previous_ = ended;
  }
  begin_period();
}

// Returns the period that has ended, which takes the place of the longest unseen where there are too many.
size_t PeriodOrder::learn() {
  const auto is_this = [&](const Period& period) {
    return period.uses == recorded_ && period.without_gradients == without_gradients_;
  };
  auto place = std::ranges::find_if(periods_, is_this);
  if (place == periods_.end()) {
    if (periods_.size() < kMostPeriods) {
      place = periods_.emplace(periods_.end());
    } else {
      place = std::ranges::min_element(periods_, {}, &Period::ended_at);
    }
    forget(static_cast<size_t>(place - periods_.begin()));
    *place = {.uses = recorded_, .without_gradients = without_gradients_, .next = {}, .ended_at = 0};
  }
  place->ended_at = ++clock_;
  return static_cast<size_t>(place - periods_.begin());
}

// Another takes its place.
void PeriodOrder::forget(size_t period) {
  for (std::optional<size_t>* place : {&expected_, &first_, &previous_}) {
    if (*place == period) place->reset();
  }
  for (Period& before : periods_) {
    if (before.next == period) before.next.reset();
  }
}

void PeriodOrder::expect(std::optional<size_t> period) {
  if (period == expected_) return;
  expected_ = period;
  set_plan(period ? periods_[*period].uses : std::vector<UnitId>());
}

void PeriodOrder::begin_period() {
  recorded_.clear();
  without_gradients_ = 0;
  forget_place();
  std::optional<size_t> next = previous_ ? periods_[*previous_].next : first_;
  if (!next && !periods_.empty()) next = std::ranges::max_element(periods_, {}, &Period::ended_at) - periods_.begin();
  expect(next);
}

void PeriodOrder::abandon() { begin_period(); }

std::vector<UnitId> PeriodOrder::take_recording() {
  std::vector<UnitId> recording = std::exchange(recorded_, {});
  begin_period();
  return recording;
}

void PeriodOrder::end_step() {
  previous_.reset();
  begin_period();
}

std::vector<int> PeriodOrder::learnt() const {
  std::vector<int> numbers;
  const auto add = [&](std::optional<size_t> index) { numbers.push_back(index ? static_cast<int>(*index) : -1); };
  for (const Period& period : periods_) {
    add(period.uses.size());
    numbers.insert(numbers.end(), period.uses.begin(), period.uses.end());
    add(period.without_gradients);
    add(period.next);
    add(period.ended_at);
  }
  add(first_);
  add(previous_);
  return numbers;
}

void PeriodOrder::forget_all() {
  periods_.clear();
  first_.reset();
  previous_.reset();
  begin_period();
}

bool PeriodOrder::begins_without_gradients(UnitId unit) const {
  const size_t here = next();
  return expected_ && here < periods_[*expected_].without_gradients && plan()[here] == unit;
}

bool PeriodOrder::begins_next_step_with(UnitId unit, int uses) const {
  if (!first_) return false;
  const auto first_uses = periods_[*first_].uses | std::views::take(uses);
  return std::ranges::find(first_uses, unit) != first_uses.end();
}

}  // namespace fsdp::schedule
