#include "collectives/world_calls.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/pace.h"

namespace fsdp::collectives {

namespace {

// A call that lasts for so long is a long wait, if it waits.
constexpr std::chrono::seconds kLong{1};

uint64_t number_of_thread(std::thread::id thread) { return std::hash<std::thread::id>()(thread); }

// In the number of a wait: of a thread that waits for the one whose wait it is.
constexpr uint64_t kForAnother = uint64_t{1} << 63;

uint64_t this_thread() { return number_of_thread(std::this_thread::get_id()); }

}  // namespace

WorldCalls::WorldCalls() = default;
// The finder ends while everything else is there.
WorldCalls::~WorldCalls() { finder_.reset(); }

void WorldCalls::open(const Place& place) {
  const std::lock_guard lock(mutex_);
  Group& group = groups_[place.group];
  group.place = place;
  if (!group.is_given) group.thread = this_thread();
  ++group.opened;
}

void WorldCalls::close(uint64_t group) {
  const std::lock_guard lock(mutex_);
  const auto found = groups_.find(group);
  if (found != groups_.end() && --found->second.opened == 0) groups_.erase(found);
}

void WorldCalls::use(uint64_t group) {
  const std::lock_guard lock(mutex_);
  const auto found = groups_.find(group);
  if (found != groups_.end() && !found->second.is_given) found->second.thread = this_thread();
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

uint64_t WorldCalls::begin_operation(uint64_t group) {
  const std::lock_guard lock(mutex_);
  Group& own = groups_[group];
  own.thread = this_thread();
  return ++own.calls;
}

uint64_t WorldCalls::give(uint64_t group) {
  const std::lock_guard lock(mutex_);
  Group& own = groups_[group];
  own.is_given = true;
  own.thread = this_thread();
  return ++own.calls;
}

void WorldCalls::run_given(uint64_t group, uint64_t number, const std::string& purpose) {
  const std::lock_guard lock(mutex_);
  const uint64_t thread = this_thread();
  calls_[thread] = {{.thread = thread, .number = ++last_wait_, .group = group, .doing = purpose, .call = number},
                    Clock::now()};
}

WorldCalls::WaitForThread::WaitForThread(WorldCalls& calls, std::thread::id thread)
    : calls_(calls), waiting_(this_thread()) {
  const std::lock_guard lock(calls_.mutex_);
  calls_.awaited_threads_[waiting_] = number_of_thread(thread);
}

WorldCalls::WaitForThread::~WaitForThread() {
  const std::lock_guard lock(calls_.mutex_);
  calls_.awaited_threads_.erase(waiting_);
}

void WorldCalls::show(std::thread::id thread, uint64_t group, uint64_t operation, const std::string& purpose,
                      const std::vector<int>& ranks) {
  const std::lock_guard lock(mutex_);
  const uint64_t number = number_of_thread(thread);
  waits_[number] = {
      .thread = number, .number = ++last_wait_, .group = group, .doing = purpose, .call = operation, .awaited = ranks};
}

void WorldCalls::hide(std::thread::id thread) {
  const std::lock_guard lock(mutex_);
  const auto found = waits_.find(number_of_thread(thread));
  if (found == waits_.end()) return;
  circles_.erase(found->second.number);
  waits_.erase(found);
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
    if (call == calls_.end() || call->second.wait.group != wait.group) continue;
    all.waits.back().doing = call->second.wait.doing;
    const auto group = groups_.find(wait.group);
    if (group != groups_.end() && group->second.is_given) all.waits.back().call = call->second.wait.call;
  }
  for (const auto& [thread, call] : calls_) {
    if (waits_.count(thread) > 0 || Clock::now() - call.since < paced(kLong)) continue;
    all.waits.push_back(call.wait);
    all.waits.back().awaited = groups_.at(call.wait.group).place.ranks;
  }
  for (const auto& [waiting, thread] : awaited_threads_) {
    const auto wait = std::ranges::find(all.waits, thread, &ThreadWait::thread);
    if (wait == all.waits.end()) continue;
    ThreadWait same = *wait;
    same.thread = waiting;
    same.number |= kForAnother;
    all.waits.push_back(std::move(same));
  }
  for (ThreadWait& wait : all.waits) {
    const auto group = groups_.find(wait.group);
    if (group != groups_.end()) wait.doing += " " + group->second.place.where;
  }
  return all;
}

void WorldCalls::conclude(uint64_t wait, const FoundCircle& circle) {
  const std::lock_guard lock(mutex_);
  wait &= ~kForAnother;
  for (const auto& [thread, present] : waits_) {
    if (present.number == wait) circles_[wait] = circle;
  }
  for (const auto& [thread, call] : calls_) {
    if (call.wait.number == wait) circles_[wait] = circle;
  }
}

}  // namespace fsdp::collectives
