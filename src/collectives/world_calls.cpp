#include "collectives/world_calls.h"

#include <functional>
#include <utility>

namespace fsdp::collectives {

namespace {

// A call that lasts for so long is a long wait, if it waits.
constexpr std::chrono::seconds kLong{1};

uint64_t number_of_thread(std::thread::id thread) { return std::hash<std::thread::id>()(thread); }

uint64_t this_thread() { return number_of_thread(std::this_thread::get_id()); }

}  // namespace

WorldCalls::WorldCalls() = default;
// The finder ends while everything else is there.
WorldCalls::~WorldCalls() { finder_.reset(); }

void WorldCalls::open(const Place& place) {
  const std::lock_guard lock(mutex_);
  Group& group = groups_[place.group];
  group.place = place;
  group.thread = this_thread();
  ++group.opened;
}

void WorldCalls::close(uint64_t group) {
  const std::lock_guard lock(mutex_);
  const auto found = groups_.find(group);
  if (found != groups_.end() && --found->second.opened == 0) groups_.erase(found);
}

void WorldCalls::use(uint64_t group) {
  const std::lock_guard lock(mutex_);
  if (const auto found = groups_.find(group); found != groups_.end()) found->second.thread = this_thread();
}

uint64_t WorldCalls::begin(uint64_t world, const std::string& purpose) {
  const std::lock_guard lock(mutex_);
  Group& group = groups_[world];
  group.thread = this_thread();
  Present& present = calls_[group.thread];
  present = {{.thread = group.thread, .number = ++last_wait_, .group = world, .doing = purpose, .call = ++group.calls},
             Clock::now()};
  return group.calls;
}

void WorldCalls::end() {
  const std::lock_guard lock(mutex_);
  const auto found = calls_.find(this_thread());
  if (found == calls_.end()) return;
  circles_.erase(found->second.wait.number);
  calls_.erase(found);
}

bool WorldCalls::is_awaited_by(const WorldCall& call) const {
  const std::lock_guard lock(mutex_);
  const auto own = groups_.find(call.world);
  return own != groups_.end() && own->second.calls < call.number;
}

WorldCalls::Wait::Wait(WorldCalls& calls, uint64_t group, const std::string& purpose)
    : calls_(calls), thread_(this_thread()) {
  {
    const std::lock_guard lock(calls_.mutex_);
    calls_.waits_[thread_] = {
        .thread = thread_, .number = ++calls_.last_wait_, .group = group, .doing = purpose, .looks = 1};
  }
  calls_.note_long_wait();
}

WorldCalls::Wait::~Wait() {
  const std::lock_guard lock(calls_.mutex_);
  const auto found = calls_.waits_.find(thread_);
  calls_.circles_.erase(found->second.number);
  calls_.waits_.erase(found);
}

void WorldCalls::Wait::look(std::vector<int> awaited) {
  const std::lock_guard lock(calls_.mutex_);
  ThreadWait& wait = calls_.waits_[thread_];
  wait.awaited = std::move(awaited);
  ++wait.looks;
}

// Without the mutex, which the finder takes as well.
void WorldCalls::note_long_wait() {
  if (finder_) finder_->wake();
}

std::optional<FoundCircle> WorldCalls::circle_of(std::thread::id thread) const {
  const std::lock_guard lock(mutex_);
  const uint64_t number = number_of_thread(thread);
  const auto wait = waits_.find(number);
  const auto call = calls_.find(number);
  if (wait == waits_.end() && call == calls_.end()) return std::nullopt;
  const auto found = circles_.find(wait != waits_.end() ? wait->second.number : call->second.wait.number);
  return found == circles_.end() ? std::nullopt : std::optional(found->second);
}

// If a thread in a call has a long wait, the wait counts: it names the ranks that have not come. The call has the name
// that the user knows.
RankWaits WorldCalls::waits() const {
  const std::lock_guard lock(mutex_);
  RankWaits all;
  for (const auto& [number, group] : groups_) all.groups.push_back({number, group.calls, group.thread});
  for (const auto& [thread, wait] : waits_) {
    all.waits.push_back(wait);
    const auto call = calls_.find(thread);
    if (call != calls_.end() && call->second.wait.group == wait.group) all.waits.back().doing = call->second.wait.doing;
  }
  for (const auto& [thread, call] : calls_) {
    if (waits_.count(thread) > 0 || Clock::now() - call.since < kLong) continue;
    all.waits.push_back(call.wait);
    all.waits.back().awaited = groups_.at(call.wait.group).place.ranks;
  }
  for (ThreadWait& wait : all.waits) {
    const auto group = groups_.find(wait.group);
    if (group != groups_.end()) wait.doing += " " + group->second.place.where;
  }
  return all;
}

void WorldCalls::conclude(uint64_t wait, const FoundCircle& circle) {
  const std::lock_guard lock(mutex_);
  for (const auto& [thread, present] : waits_) {
    if (present.number == wait) circles_[wait] = circle;
  }
  for (const auto& [thread, call] : calls_) {
    if (call.wait.number == wait) circles_[wait] = circle;
  }
}

}  // namespace fsdp::collectives
