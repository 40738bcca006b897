#include "collectives/circle_finder.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/pace.h"
#include "base/patience.h"
#include "base/rank_thread.h"

namespace fsdp::collectives {

namespace {

using std::chrono::milliseconds;

constexpr milliseconds kBetweenLooks{500};
// The time that the other ranks of a circle have to find it, too, so that all of them report the same.
constexpr milliseconds kOthers{3000};
// The time that a board has for what is under way when the process ends.
constexpr milliseconds kLastLook{5000};

uint64_t name_of(const std::string& text) { return std::hash<std::string>()(text) | 1; }

// The statuses of one look.
class Reading {
 public:
  // `own` outlives this.
  Reading(StatusBoard& board, int own_rank, const RankWaits& own) : board_(board), own_rank_(own_rank), own_(own) {}

  const RankWaits* of(int rank) {
    if (rank == own_rank_) return &own_;
    const auto [place, is_new] = read_.try_emplace(rank);
    if (is_new) place->second = read(rank);
    return place->second ? &*place->second : nullptr;
  }

 private:
  // One that cannot be read tells nothing, as one that is not there.
  std::optional<RankWaits> read(int rank) {
    try {
      const std::optional<std::string> text = board_.read(rank);
      return text ? decode_waits(*text) : std::nullopt;
    } catch (const std::exception&) {
      return std::nullopt;
    }
  }

  StatusBoard& board_;
  const int own_rank_;
  const RankWaits& own_;
  std::map<int, std::optional<RankWaits>> read_;
};

// A circle that does not end.
struct Certain {
  WaitCircle circle;
  std::string text;
  Patience patience{paced(kOthers)};
};

// This rank shows its own finding before it counts.
bool all_have_found(const Certain& certain, Reading& reading) {
  return std::ranges::all_of(certain.circle, [&](const WaitInCircle& one) {
    const RankWaits* const waits = reading.of(one.rank);
    return waits != nullptr && waits->circle == name_of(certain.text);
  });
}

// Outlives the finder while the board hangs.
class BoardThread {
 public:
  BoardThread(std::unique_ptr<StatusBoard> board, int rank, WorldCalls& calls)
      : board_(std::move(board)), rank_(rank), calls_(calls) {}

  void run();

  std::mutex mutex;
  std::condition_variable changed;
  // Guarded by the mutex.
  bool is_awake = false;
  bool stopping = false;
  bool ended = false;

 private:
  std::map<uint64_t, FoundCircle> look(RankWaits& own);
  void forget_those_over(const RankWaits& own);
  void note_look(RankWaits& own, Reading& reading);
  void post(const RankWaits& own);
  void find(const ThreadWait& wait, Reading& reading);

  const std::unique_ptr<StatusBoard> board_;
  const int rank_;
  WorldCalls& calls_;  // there until `stopping`
  uint64_t looks_ = 0;
  // By the number of the wait on this rank.
  std::map<uint64_t, std::vector<int>> awaited_;  // in a call: without the ranks that have begun it
  std::map<uint64_t, CircleWatch> watches_;
  std::map<uint64_t, Certain> certain_;
};

void BoardThread::run() {
  std::unique_lock lock(mutex);
  while (!stopping) {
    changed.wait(lock, [this] { return stopping || is_awake; });
    changed.wait_for(lock, paced(kBetweenLooks), [this] { return stopping; });
    if (stopping) break;
    RankWaits own = calls_.waits();
    is_awake = !own.waits.empty();
    if (!is_awake) continue;
    lock.unlock();
    const std::map<uint64_t, FoundCircle> found = look(own);
    lock.lock();
    if (stopping) break;
    for (const auto& [wait, circle] : found) calls_.conclude(wait, circle);
  }
  ended = true;
  changed.notify_all();
}

std::map<uint64_t, FoundCircle> BoardThread::look(RankWaits& own) {
  forget_those_over(own);
  Reading reading(*board_, rank_, own);
  note_look(own, reading);
  post(own);
  for (const ThreadWait& wait : own.waits) find(wait, reading);
  std::map<uint64_t, FoundCircle> found;
  for (auto& [wait, certain] : certain_)
    found[wait] = {certain.text, certain.patience.is_over() || all_have_found(certain, reading)};
  return found;
}

void BoardThread::forget_those_over(const RankWaits& own) {
  const auto is_over = [&own](const auto& of_wait) {
    return std::ranges::find(own.waits, of_wait.first, &ThreadWait::number) == own.waits.end();
  };
  std::erase_if(awaited_, is_over);
  std::erase_if(watches_, is_over);
  std::erase_if(certain_, is_over);
}

// This thread sees that a call goes on. The thread that waits sees it of other waits.
void BoardThread::note_look(RankWaits& own, Reading& reading) {
  ++looks_;
  for (ThreadWait& wait : own.waits) {
    if (wait.call == 0) continue;
    wait.looks = looks_;
    std::vector<int>& awaited = awaited_.try_emplace(wait.number, wait.awaited).first->second;
    std::erase_if(awaited, [&](int rank) {
      const RankWaits* const theirs = reading.of(rank);
      return theirs != nullptr && has_come(wait, *theirs);
    });
    wait.awaited = awaited;
  }
  if (!certain_.empty()) own.circle = name_of(certain_.begin()->second.text);
}

void BoardThread::post(const RankWaits& own) {
  try {
    board_->post(rank_, encode_waits(own));
  } catch (const std::exception&) {  // a board that cannot be reached leaves the waits to their timeout
  }
}

void BoardThread::find(const ThreadWait& wait, Reading& reading) {
  if (certain_.count(wait.number) > 0) return;
  const WaitCircle circle = find_circle(rank_, wait, [&reading](int rank) { return reading.of(rank); });
  if (watches_[wait.number].is_certain(circle)) certain_.try_emplace(wait.number, circle, circle_text(circle));
}

class BoardFinder final : public CircleFinder {
 public:
  BoardFinder(std::unique_ptr<StatusBoard> board, int rank, WorldCalls& calls)
      : shared_(std::make_shared<BoardThread>(std::move(board), rank, calls)) {}
  ~BoardFinder() override {
    std::unique_lock lock(shared_->mutex);
    shared_->stopping = true;
    shared_->changed.notify_all();
    if (!thread_.joinable()) return;
    const bool ended = shared_->changed.wait_for(lock, kLastLook, [this] { return shared_->ended; });
    lock.unlock();
    ended ? thread_.join() : thread_.detach();
  }
  void wake() override {
    const std::lock_guard lock(shared_->mutex);
    if (!thread_.joinable()) thread_ = std::thread(of_this_rank([shared = shared_] { shared->run(); }));
    shared_->is_awake = true;
    shared_->changed.notify_all();
  }

 private:
  std::shared_ptr<BoardThread> shared_;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<CircleFinder> make_circle_finder(std::unique_ptr<StatusBoard> board, int rank, WorldCalls& calls) {
  return std::make_unique<BoardFinder>(std::move(board), rank, calls);
}

}  // namespace fsdp::collectives
