#include "collectives/watchdog.h"

#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <span>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/pace.h"
#include "base/patience.h"
#include "base/rank_names.h"
#include "base/rank_thread.h"
#include "collectives/divergence.h"
#include "collectives/model_waits.h"

namespace fsdp::collectives {

namespace {

using std::chrono::milliseconds;

// A wait that lasts from one look to the next is long.
constexpr milliseconds kPeriod{1000};
// The time that a peer that failed has for its status: less than `launch` leaves to the others once a rank has died.
constexpr milliseconds kExplanation{300};
constexpr milliseconds kBetweenReads{50};
// The time that a board has for the last status.
constexpr milliseconds kFarewell{5000};

using Statuses = std::map<int, RankStatus>;  // by rank; without ranks that have posted nothing

}  // namespace

class Watchdog::Thread {
 public:
  Thread(std::unique_ptr<StatusBoard> board, int rank, std::vector<int> names, std::shared_ptr<WorldCalls> calls,
         const WorldCalls::Place& place)
      : model_waits(calls, place),
        board_(std::move(board)),
        rank_(rank),
        names_(std::move(names)),
        calls_(std::move(calls)) {}

  void run();
  // Both with the mutex.
  void set_call(const WorldCall* call);
  void note_user();

  std::mutex mutex;
  std::condition_variable changed;
  // All guarded by the mutex.
  RankStatus own;
  Among among = Among::All;                           // of the last operation
  std::thread::id user = std::this_thread::get_id();  // the thread that called last
  int64_t calls_noted = 0;                            // of worlds: tells them apart
  bool call_is_posted = false;
  std::optional<std::span<const std::unique_ptr<Message>>> waiting;
  int64_t waits = 0;           // begun so far: tells them apart
  std::optional<int> awaited;  // the peer whose own waiting ends this wait
  bool gave_up = false;
  std::optional<int> lost;  // the peer that `explain` asks about
  bool unposted = false;    // something that cannot be left to the next look
  bool stopping = false;
  bool ended = false;
  std::optional<Diagnosis> diagnosis;
  ModelWaits model_waits;

 private:
  void post(std::unique_lock<std::mutex>& lock);
  void look(std::unique_lock<std::mutex>& lock);
  std::optional<std::string> read_peer(int peer);
  Statuses read_peers();
  bool stalls(const Statuses& peers) const;
  std::optional<Diagnosis> divergence(const Statuses& peers) const;
  std::optional<Diagnosis> call_elsewhere(const Statuses& peers) const;
  bool waits_elsewhere(const RankStatus& status) const;
  std::optional<Diagnosis> failure(const Statuses& peers) const;
  std::optional<Diagnosis> circle_or_failure(const Statuses& peers) const;

  const std::unique_ptr<StatusBoard> board_;
  const int rank_;
  const std::vector<int> names_;
  const std::shared_ptr<WorldCalls> calls_;
  std::string posted_;
};

void Watchdog::Thread::run() {
  std::unique_lock lock(mutex);
  int64_t previous = 0, previous_call = 0;
  while (!stopping || unposted) {
    changed.wait_for(lock, paced(kPeriod), [&] { return stopping || unposted || lost; });
    if (unposted) {
      unposted = false;
      post(lock);
    }
    const int64_t current = waiting ? waits : 0;
    const bool is_long = current != 0 && current == previous;
    previous = current;
    const int64_t call = own.call ? calls_noted : 0;
    const bool call_is_long = call != 0 && call == previous_call;
    previous_call = call;
    if (!stopping && call_is_long) post(lock);
    if (!stopping && is_long && calls_) {
      if (among == Among::All) model_waits.show(user, own.history.operation(own.history.end() - 1), names_);
      calls_->note_long_wait();
    }
    if (!stopping && (lost || is_long)) look(lock);
  }
  ended = true;
  changed.notify_all();
}

void Watchdog::Thread::set_call(const WorldCall* call) {
  own.call = call ? std::optional(*call) : std::nullopt;
  ++calls_noted;
  if (!call_is_posted) return;
  unposted = true;
  changed.notify_all();
}

// If another thread of this rank is in a call of a world, no rank of this group waits for that thread.
void Watchdog::Thread::note_user() {
  if (std::exchange(user, std::this_thread::get_id()) != std::this_thread::get_id() && own.call) set_call(nullptr);
}

// A board that cannot be reached leaves us with what the connections tell.
void Watchdog::Thread::post(std::unique_lock<std::mutex>& lock) {
  std::string text = encode(own);
  call_is_posted = own.call.has_value();
  lock.unlock();
  try {
    if (text != posted_) board_->post(rank_, text);
    posted_ = std::move(text);
  } catch (const std::exception&) {
  }
  lock.lock();
}

void Watchdog::Thread::look(std::unique_lock<std::mutex>& lock) {
  const int64_t wait = waits;
  own.waiting = waiting.has_value();
  post(lock);
  lock.unlock();
  const Statuses peers = read_peers();
  lock.lock();
  if (wait != waits || (!waiting && !lost)) return;
  diagnosis = divergence(peers);
  if (!diagnosis) diagnosis = circle_or_failure(peers);
  if (!diagnosis) diagnosis = call_elsewhere(peers);
  gave_up = !diagnosis && stalls(peers);
  if ((diagnosis || gave_up) && waiting) {
    for (const auto& message : *waiting) message->abort();
  }
  lost.reset();
  changed.notify_all();
}

bool Watchdog::Thread::stalls(const Statuses& peers) const {
  if (!awaited) return false;
  const auto status = peers.find(*awaited);
  return status != peers.end() && (status->second.waiting || waits_elsewhere(status->second));
}

// In a call of a world, for this rank among others.
bool Watchdog::Thread::waits_elsewhere(const RankStatus& status) const {
  return status.call && calls_ && calls_->is_awaited_by(*status.call);
}

// Also none if another program wrote it: only ranks of this group may end a wait.
std::optional<std::string> Watchdog::Thread::read_peer(int peer) {
  try {
    return board_->read(peer);
  } catch (const Error&) {
    return std::nullopt;
  }
}

Statuses Watchdog::Thread::read_peers() {
  Statuses statuses;
  try {
    for (int peer = 0; peer < static_cast<int>(names_.size()); ++peer) {
      if (peer == rank_) continue;
      const std::optional<std::string> text = read_peer(peer);
      if (!text) continue;
      // One that cannot be read tells nothing, as one that is not there: the wait itself finds out who is missing.
      if (std::optional<RankStatus> status = decode(*text)) statuses.emplace(peer, std::move(*status));
    }
  } catch (const std::exception&) {
  }
  return statuses;
}

// The earliest one: later ones follow from it.
std::optional<Diagnosis> Watchdog::Thread::divergence(const Statuses& peers) const {
  std::optional<int64_t> earliest;
  Diagnosis found;
  for (const auto& [peer, status] : peers) {
    const std::optional<int64_t> number = first_difference(own.history, status.history);
    if (!number || (earliest && *earliest <= *number)) continue;
    earliest = number;
    found.text = divergence_text({names_[peer], status.history.operation(*number)},
                                 {names_[rank_], own.history.operation(*number)},
                                 fmt::format(" (operation {} of this group)", *number));
  }
  return earliest ? std::optional(found) : std::nullopt;
}

// A rank that waits elsewhere begins nothing here. One that has begun this rank's operation may still be sending.
std::optional<Diagnosis> Watchdog::Thread::call_elsewhere(const Statuses& peers) const {
  if (!waiting || among == Among::Some) return std::nullopt;
  for (const auto& [peer, status] : peers) {
    if (!waits_elsewhere(status) || status.history.end() >= own.history.end()) continue;
    return Diagnosis{
        divergence_text({names_[peer], status.call->purpose},
                        {names_[rank_], own.history.operation(own.history.end() - 1)}, ", so no rank can continue"),
        std::nullopt};
  }
  return std::nullopt;
}

// First the errors that name the culprit. The loss of another rank matters only to ranks that wait for its reporter.
std::optional<Diagnosis> Watchdog::Thread::failure(const Statuses& peers) const {
  for (bool of_connection : {false, true}) {
    for (const auto& [peer, status] : peers) {
      const std::optional<Failure>& failure = status.failure;
      if (!failure || failure->of_connection != of_connection) continue;
      if (of_connection && lost && *lost != peer) continue;
      return Diagnosis{fmt::format("{} failed: {}", text_of_rank(failure->rank), failure->message), failure};
    }
  }
  return std::nullopt;
}

// A peer that fails may have found the circle that this rank has found, too.
std::optional<Diagnosis> Watchdog::Thread::circle_or_failure(const Statuses& peers) const {
  const std::optional<Diagnosis> failed = failure(peers);
  const std::optional<FoundCircle> circle = calls_ ? calls_->circle_of(user) : std::nullopt;
  if (circle && (circle->all_have_found || failed || lost)) return Diagnosis{circle->text, std::nullopt};
  return failed;
}

Watchdog::Watchdog(std::unique_ptr<StatusBoard> board, int rank, std::vector<int> names,
                   std::shared_ptr<WorldCalls> calls, const WorldCalls::Place& place)
    : shared_(std::make_shared<Thread>(std::move(board), rank, std::move(names), std::move(calls), place)),
      thread_(of_this_rank([shared = shared_] { shared->run(); })) {}

Watchdog::~Watchdog() {
  std::unique_lock lock(shared_->mutex);
  shared_->model_waits.hide();
  shared_->stopping = true;
  shared_->changed.notify_all();
  const bool ended = shared_->changed.wait_for(lock, kFarewell, [&] { return shared_->ended; });
  lock.unlock();
  ended ? thread_.join() : thread_.detach();
}

void Watchdog::begins(std::string operation, Among among) {
  std::lock_guard lock(shared_->mutex);
  shared_->note_user();
  shared_->own.history.add(std::move(operation));
  shared_->among = among;
  if (among == Among::All) shared_->model_waits.begin_operation();
}

std::string Watchdog::last_operation() const {
  std::lock_guard lock(shared_->mutex);
  const History& history = shared_->own.history;
  return history.end() == history.first() ? "" : history.operation(history.end() - 1);
}

void Watchdog::note_call(const WorldCall* call) {
  std::lock_guard lock(shared_->mutex);
  if (shared_->user == std::this_thread::get_id()) shared_->set_call(call);
}

void Watchdog::wait_begins(std::span<const std::unique_ptr<Message>> messages, std::optional<int> unless_waiting) {
  std::lock_guard lock(shared_->mutex);
  shared_->note_user();
  shared_->waiting = messages;
  shared_->awaited = unless_waiting;
  shared_->gave_up = false;
  ++shared_->waits;
}

void Watchdog::wait_ends() noexcept {
  std::lock_guard lock(shared_->mutex);
  shared_->waiting.reset();
  shared_->model_waits.hide();
  if (!shared_->own.waiting) return;
  shared_->own.waiting = false;
  shared_->unposted = true;
  shared_->changed.notify_all();
}

bool Watchdog::gave_up() const {
  std::lock_guard lock(shared_->mutex);
  return shared_->gave_up;
}

std::optional<Diagnosis> Watchdog::explain(int peer) {
  Patience patience(kExplanation);
  std::unique_lock lock(shared_->mutex);
  while (!shared_->diagnosis && !patience.is_over()) {
    shared_->lost = peer;
    shared_->changed.notify_all();
    shared_->changed.wait_for(lock, patience.until_next_look(), [&] { return !shared_->lost; });
    if (!shared_->diagnosis) shared_->changed.wait_for(lock, kBetweenReads, [] { return false; });
  }
  shared_->lost.reset();
  return shared_->diagnosis;
}

void Watchdog::fails(Failure failure) {
  std::lock_guard lock(shared_->mutex);
  shared_->own.failure = std::move(failure);
  shared_->unposted = true;
  shared_->changed.notify_all();
}

}  // namespace fsdp::collectives
