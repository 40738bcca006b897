#include "schedule/record.h"

#include <algorithm>
#include <utility>

namespace fsdp::schedule {

namespace {

// Forward passes whose backward never comes, and backwards without a step, would be recorded without end.
constexpr size_t kMostEvents = 1 << 16;
constexpr size_t kMostMicroBatches = 64;  // that differ

}  // namespace

void Record::begin_micro_batch() {
  open_ = true;
  ends_ = false;
  micro_batch_ = {.full_before = full_, .events = {}};
}

void Record::use(UnitId unit, Mode mode) {
  if (open_ && micro_batch_.events.size() < kMostEvents)
    micro_batch_.events.push_back({.kind = Event::Kind::Use, .mode = mode, .action = {.kind = {}, .unit = unit}});
}

void Record::end_of_backward() {
  if (!open_ || std::exchange(ends_, true)) return;
  micro_batch_.events.push_back({.kind = Event::Kind::EndOfBackward});
}

void Record::add(const Actions& actions) {
  note_full(actions);
  if (!open_ || micro_batch_.events.size() >= kMostEvents) return;
  for (const Action& action : actions) micro_batch_.events.push_back({.kind = Event::Kind::Action, .action = action});
}

void Record::end_micro_batch() {
  if (!std::exchange(open_, false)) return;
  auto& before = step_.micro_batches;
  const bool again = !before.empty() && before.back().full_before == micro_batch_.full_before &&
                     before.back().events == micro_batch_.events;
  if (again) {
    ++before.back().count;
  } else if (before.size() < kMostMicroBatches) {
    before.push_back(std::move(micro_batch_));
  }
}

void Record::add_behind(const Actions& actions) {
  note_full(actions);
  step_.behind.insert(step_.behind.end(), actions.begin(), actions.end());
}

void Record::end_step() {
  if (!step_.micro_batches.empty()) {
    last_ = std::move(step_);
    ++steps_;
  }
  step_ = {};
}

void Record::add_to_last_step(const Actions& actions) {
  note_full(actions);
  last_.behind.insert(last_.behind.end(), actions.begin(), actions.end());
}

void Record::note_full(const Actions& actions) {
  for (const Action& action : actions) {
    if (action.kind == Action::Kind::Gather) full_[action.unit] = 1;
    if (action.kind == Action::Kind::Release) full_[action.unit] = 0;
  }
}

}  // namespace fsdp::schedule
