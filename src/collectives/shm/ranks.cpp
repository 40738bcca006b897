#include "collectives/shm/ranks.h"

#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <exception>
#include <utility>

#include "base/error.h"
#include "base/pace.h"
#include "base/patience.h"
#include "base/rank_names.h"
#include "collectives/divergence.h"

namespace fsdp::collectives::shm {

namespace {

// A moment: peers that run in step arrive within it.
constexpr int kSpins = 2000;
// Where ranks share a core, the peer that this rank waits for may need it: so often it is offered.
constexpr int kSpinsPerYield = 100;
// How long a rank sleeps before it looks at its peers.
constexpr std::chrono::microseconds kSlice{10'000};

// Ranks that all wait for so long, each of which has looked at its peers so often meanwhile, wait for ever.
constexpr std::chrono::seconds kShort{1}, kStandstill{2};
constexpr uint64_t kStandstillLooks = 20;

void pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

void sleep_on(std::atomic<uint32_t>& word, uint32_t expected, std::chrono::microseconds slice) {
  const timespec time{.tv_sec = 0, .tv_nsec = std::chrono::nanoseconds(slice).count()};
  syscall(SYS_futex, &word, FUTEX_WAIT, expected, &time, nullptr, 0);
}

void wake(std::atomic<uint32_t>& word) {
  word.fetch_add(1);
  syscall(SYS_futex, &word, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

// A number that stands for the process even after it is gone.
int open_process(const Member& member) {
  const auto descriptor = static_cast<int>(syscall(SYS_pidfd_open, member.process, 0));
  FSDP_CHECK(descriptor >= 0 || errno == ESRCH,
             "shm: the process of {} cannot be watched: {}. This needs Linux 5.3 and enough open files (ulimit "
             "-n); otherwise set LaunchOptions::backend to gloo.",
             text_of_rank(member.name), std::strerror(errno));
  return descriptor;
}

}  // namespace

Ranks::Ranks(int rank, std::vector<Member> members, std::chrono::milliseconds timeout,
             std::shared_ptr<WorldCalls> calls, const WorldCalls::Place& place)
    : rank_(rank),
      members_(std::move(members)),
      timeout_(timeout),
      calls_(std::move(calls)),
      group_(place.group),
      descriptors_(members_.size(), -1) {
  for (int i = 1; i < size(); ++i) peers_.push_back((rank_ + i) % size());
  for (int peer : peers_) descriptors_[peer] = open_process(members_[peer]);
  if (calls_ && group_ != 0) calls_->open(place);
}

Ranks::~Ranks() {
  if (calls_) calls_->close(group_);
  const bool throws = std::uncaught_exceptions() > 0 || (calls_ && calls_->has_thrown());
  Ending none = Ending::None;
  control_of(rank_).ending.compare_exchange_strong(none, throws ? Ending::Left : Ending::Returned);
  for (int peer : peers_) {
    wake(control_of(peer).bell);
    if (descriptors_[peer] >= 0) close(descriptors_[peer]);
  }
}

void Ranks::ring() {
  Counter& moves = control_of(rank_).moves;
  moves.set(moves.get() + 1);
  for (int peer : peers_) {
    Control& control = control_of(peer);
    if (control.sleeping.load() != 0) wake(control.bell);
  }
}

void Ranks::fail(const Failure& failure) {
  Control& own = control_of(rank_);
  if (own.ending.load() != Ending::None) return;
  own.failed_rank = failure.rank;
  own.of_connection = failure.of_connection;
  std::strncpy(own.message, failure.message.c_str(), kMessageBytes - 1);
  own.ending.store(Ending::Failed);
  for (int peer : peers_) wake(control_of(peer).bell);
}

void Ranks::enter(Phase phase) {
  constexpr auto kCount = static_cast<uint64_t>(Phase::Count);
  Counter& own = control_of(rank_).phase;
  own.set((own.get() / kCount + 1) * kCount + static_cast<uint64_t>(phase));
}

void Ranks::note_call(const WorldCall* call) {
  if (user_.load() != std::this_thread::get_id()) return;
  Control& own = control_of(rank_);
  const bool is_in_one = own.calls.get() % 2 == 1;
  if (is_in_one) own.calls.set(own.calls.get() + 1);
  if (call == nullptr) return;
  own.call_world = call->world;
  own.call_number = call->number;
  own.call_purpose[call->purpose.copy(own.call_purpose, kPurposeBytes - 1)] = '\0';
  own.calls.set(own.calls.get() + 1);
}

// If another thread of this rank is in a call of a world, no rank of this group waits for that thread.
void Ranks::note_user() {
  if (user_.exchange(std::this_thread::get_id()) == std::this_thread::get_id()) return;
  note_call(nullptr);
  if (calls_) calls_->use(group_);
}

void Ranks::add(Work& work) { works_.push_back(&work); }

void Ranks::withdraw(const Work& work) { std::erase(works_, &work); }

void Ranks::advance() {
  std::erase_if(works_, [](Work* work) { return work->advance(); });
}

// One in which this rank has fallen asleep, as its peers see it.
class Ranks::LongWait {
 public:
  // `is_sure`: it ends only after the missing ranks have come.
  LongWait(Ranks& ranks, const std::string& purpose, bool is_sure)
      : ranks_(ranks),
        own_(ranks.control_of(ranks.rank())),
        may_be_in_circle_(is_sure && ranks.calls_ && ranks.group_) {
    own_.purpose[purpose.copy(own_.purpose, kPurposeBytes - 1)] = '\0';
    own_.waits.set(own_.waits.get() + 1);
  }
  // The rank to name where the wait took too long: a missing one, or one that a missing one waits for in its turn.
  // Ranks that wait look at their peers.
  int silent_rank() const {
    const std::vector<uint64_t> now = looks_of_all();
    const auto is_silent = [&](int rank) { return now[rank] == first_looks_[rank]; };
    for (const std::vector<int>* ranks : {&ranks_.missing(), &ranks_.peers()}) {
      const auto found = std::find_if(ranks->begin(), ranks->end(), is_silent);
      if (found != ranks->end()) return *found;
    }
    return ranks_.missing().front();
  }
  // A wait that fails goes on, for the peers: they find what this rank has found.
  void end() { own_.waits.set(own_.waits.get() + 1); }

  // Throws WaitFailure in three cases. Every rank has been in the same wait for long, and has checked its peers in it.
  // A missing rank has waited long for this one, in a call of a world. Or this wait is part of a circle.
  void look() {
    look_at_calls();
    show();
    throw_circle(/*if_all_have_found=*/true);
    own_.looks.set(own_.looks.get() + 1);
    std::vector<uint64_t> waits;
    for (int rank = 0; rank < ranks_.size(); ++rank) waits.push_back(ranks_.control_of(rank).waits.get());
    const bool all_wait = std::all_of(waits.begin(), waits.end(), [](uint64_t count) { return count % 2 == 1; });
    // A long message moves in one wait.
    for (int rank = 0; rank < ranks_.size(); ++rank) waits.push_back(ranks_.control_of(rank).moves.get());
    if (!all_wait || waits != seen_) {
      seen_ = std::move(waits);
      patience_ = Patience(paced(kStandstill));
      looks_ = looks_of_all();
    } else if (patience_.is_over() && all_have_looked()) {
      report();
    }
  }

  // The circle that this wait is part of, if it is, and if all its ranks have found it.
  void throw_circle(bool if_all_have_found) const {
    const auto circle = shown_ ? ranks_.calls_->circle_of(std::this_thread::get_id()) : std::nullopt;
    if (!circle || (if_all_have_found && !circle->all_have_found)) return;
    throw WaitFailure(WaitFailure::Kind::Diverged, circle->text, ranks_.missing().front());
  }

 private:
  // To the ranks of other groups, once it is long.
  void show() {
    if (!may_be_in_circle_ || !is_short_.is_over()) return;
    if (!shown_) shown_.emplace(*ranks_.calls_, ranks_.group_, own_.purpose);
    std::vector<int> awaited;
    for (const int rank : ranks_.missing()) awaited.push_back(ranks_.name_of(rank));
    shown_->look(std::move(awaited));
  }
  void look_at_calls() {
    for (int peer : ranks_.missing()) {
      const std::optional<WorldCall> call = ranks_.call_of(peer);
      if (!call || !ranks_.calls_->is_awaited_by(*call)) continue;
      if (call_patience_.is_over()) diverge(peer, call->purpose);
      return;
    }
    call_patience_ = Patience(paced(kStandstill));
  }
  std::vector<uint64_t> looks_of_all() const {
    std::vector<uint64_t> looks;
    for (int rank = 0; rank < ranks_.size(); ++rank) looks.push_back(ranks_.control_of(rank).looks.get());
    return looks;
  }
  bool all_have_looked() const {
    const std::vector<uint64_t> now = looks_of_all();
    return std::equal(now.begin(), now.end(), looks_.begin(),
                      [](uint64_t now, uint64_t then) { return now >= then + kStandstillLooks; });
  }
  void report() const {
    for (int peer : ranks_.peers()) {
      const std::string theirs = ranks_.control_of(peer).purpose;
      if (theirs != own_.purpose || peer == ranks_.peers().back()) diverge(peer, theirs);
    }
  }
  [[noreturn]] void diverge(int peer, const std::string& theirs) const {
    throw WaitFailure(WaitFailure::Kind::Diverged,
                      divergence_text({ranks_.name_of(peer), theirs}, {ranks_.name_of(ranks_.rank()), own_.purpose},
                                      ", so no rank can continue"),
                      peer);
  }

  Ranks& ranks_;
  Control& own_;
  const std::vector<uint64_t> first_looks_ = looks_of_all();
  std::vector<uint64_t> seen_, looks_;
  Patience patience_{paced(kStandstill)};
  Patience call_patience_{paced(kStandstill)};  // with a rank that is missing, and in a call of a world
  const bool may_be_in_circle_;
  Patience is_short_{paced(kShort)};
  std::optional<WorldCalls::Wait> shown_;
};

bool Ranks::wait_unless(std::span<const int> ranks, const std::string& purpose, const Arrived& arrived,
                        const Condition& hopeless) {
  note_user();
  pumping_.begin();
  missing_.assign(ranks.begin(), ranks.end());
  for (int spin = 0; spin < kSpins; ++spin) {
    if (all_arrived(arrived)) return true;
    if (spin % kSpinsPerYield == kSpinsPerYield - 1) {
      sched_yield();
    } else {
      pause();
    }
  }
  LongWait wait(*this, purpose, /*is_sure=*/!hopeless);
  const bool came = sleep_until_all_arrived(wait, arrived, hopeless);
  wait.end();
  return came;
}

bool Ranks::sleep_until_all_arrived(LongWait& wait, const Arrived& arrived, const Condition& hopeless) {
  Patience patience(timeout_);
  while (!all_arrived(arrived)) {
    sleep(arrived);
    if (missing_.empty()) break;
    try {
      look(arrived);
    } catch (const WaitFailure&) {
      wait.throw_circle(/*if_all_have_found=*/false);  // which a peer has found as well
      throw;
    }
    if (hopeless && hopeless()) return false;
    wait.look();
    if (patience.is_over() && !all_arrived(arrived)) {
      const int silent = wait.silent_rank();
      throw WaitFailure(WaitFailure::Kind::Lost,
                        fmt::format("{} did not answer within {} ms (stopped, stuck or busy?)",
                                    text_of_rank(name_of(silent)), timeout_.count()),
                        silent);
    }
  }
  return true;
}

bool Ranks::all_arrived(const Arrived& arrived) {
  if (!works_.empty()) advance();
  pumping_.pump();
  std::erase_if(missing_, arrived);
  return missing_.empty();
}

// A rank that changes a counter after our check finds us `sleeping`, and rings. Those of other groups do not.
void Ranks::sleep(const Arrived& arrived) {
  Control& own = control_of(rank_);
  own.sleeping.store(1);
  const uint32_t bell = own.bell.load();
  if (!all_arrived(arrived)) sleep_on(own.bell, bell, pumping_.part_of(kSlice));
  own.sleeping.store(0);
}

// A rank may have arrived just before it ended, so that is asked last.
void Ranks::look(const Arrived& arrived) const {
  auto fails = [&](int teller, const Failure& failure) {
    // A rank that has come meanwhile is no longer missing, or came for another call, which is a better error.
    bool all = true;
    for (int peer : missing_) all &= arrived(peer);
    if (all) return;
    throw WaitFailure(WaitFailure::Kind::PeerFailed,
                      fmt::format("{} failed: {}", text_of_rank(failure.rank), failure.message), teller, failure);
  };
  for (int peer : peers_) {
    if (const auto failure = failure_of(peer); failure && !failure->of_connection) fails(peer, *failure);
  }
  for (int peer : missing_) {
    if (peer == rank_) continue;
    const auto failure = failure_of(peer);
    const Ending ending = control_of(peer).ending.load();
    if (!failure && ending == Ending::None && !is_dead(peer)) continue;
    if (arrived(peer)) continue;
    if (failure) {
      fails(peer, *failure);
      continue;
    }
    if (ending == Ending::Returned) {
      const Doing here{name_of(rank_), control_of(rank_).purpose};
      throw WaitFailure(WaitFailure::Kind::Lost, early_return_text(name_of(peer), here), peer);
    }
    throw WaitFailure(WaitFailure::Kind::Lost,
                      fmt::format("{} is gone (it {}; see its own message)", text_of_rank(name_of(peer)),
                                  ending == Ending::Left ? "failed or ended early" : "was killed or crashed"),
                      peer);
  }
}

bool Ranks::is_dead(int rank) const {
  if (descriptors_[rank] < 0) return true;
  pollfd process{descriptors_[rank], POLLIN, 0};
  return poll(&process, 1, 0) == 1;
}

std::optional<WorldCall> Ranks::call_of(int rank) const {
  const Control& control = control_of(rank);
  const uint64_t calls = control.calls.get();
  if (!calls_ || rank == rank_ || calls % 2 == 0) return std::nullopt;
  const WorldCall call{control.call_world, control.call_number, control.call_purpose};
  return control.calls.get() == calls ? std::optional(call) : std::nullopt;
}

std::optional<Failure> Ranks::failure_of(int rank) const {
  const Control& control = control_of(rank);
  if (control.ending.load() != Ending::Failed) return std::nullopt;
  return Failure{control.failed_rank, control.message, control.of_connection};
}

}  // namespace fsdp::collectives::shm
