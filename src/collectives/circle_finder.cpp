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

#include "base/patience.h"

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
  Reading(StatusBoard& board, int own_rank, const RankWaits& own) : board_(board) { read_.emplace(own_rank, own); }

  const RankWaits* of(int rank) {
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
  std::map<int, std::optional<RankWaits>> read_;
};

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
  // A circle that does not end.
  struct Certain {
    WaitCircle circle;
    std::string text;
    Patience patience{kOthers};
  };

  void post(RankWaits& own);
  void look(const RankWaits& own);
  void look(const ThreadWait& wait, Reading& reading);
  bool all_have_found(const Certain& certain, Reading& reading) const;

  const std::unique_ptr<StatusBoard> board_;
  const int rank_;
  WorldCalls& calls_;  // there until `stopping`
  uint64_t looks_ = 0;
  // By the number of the wait on this rank.
  std::map<uint64_t, CircleWatch> watches_;
  std::map<uint64_t, Certain> certain_;
};

void BoardThread::run() {
  std::unique_lock lock(mutex);
  while (!stopping) {
    changed.wait(lock, [this] { return stopping || is_awake; });
    changed.wait_for(lock, kBetweenLooks, [this] { return stopping; });
    if (stopping) break;
    RankWaits own = calls_.waits();
    is_awake = !own.waits.empty();
    if (!is_awake) continue;
    lock.unlock();
    post(own);
    look(own);
    Reading again(*board_, rank_, own);
    std::map<uint64_t, FoundCircle> found;
    for (auto& [wait, certain] : certain_)
      found[wait] = {certain.text, certain.patience.is_over() || all_have_found(certain, again)};
    lock.lock();
    if (stopping) break;
    for (const auto& [wait, circle] : found) calls_.conclude(wait, circle);
  }
  ended = true;
  changed.notify_all();
}

// This thread sees that a call goes on. The thread that waits sees it of other waits.
void BoardThread::post(RankWaits& own) {
  ++looks_;
  for (ThreadWait& wait : own.waits) {
    if (wait.call > 0) wait.looks = looks_;
  }
  if (!certain_.empty()) own.circle = name_of(certain_.begin()->second.text);
  try {
    board_->post(rank_, encode_waits(own));
  } catch (const std::exception&) {  // a board that cannot be reached leaves the waits to their timeout
  }
}

void BoardThread::look(const RankWaits& own) {
  const auto is_over = [&own](const auto& of_wait) {
    return std::ranges::find(own.waits, of_wait.first, &ThreadWait::number) == own.waits.end();
  };
  std::erase_if(watches_, is_over);
  std::erase_if(certain_, is_over);
  Reading reading(*board_, rank_, own);
  for (const ThreadWait& wait : own.waits) look(wait, reading);
}

void BoardThread::look(const ThreadWait& wait, Reading& reading) {
  if (certain_.count(wait.number) > 0) return;
  const WaitCircle circle = find_circle(rank_, wait, [&reading](int rank) { return reading.of(rank); });
  if (watches_[wait.number].is_certain(circle)) certain_.try_emplace(wait.number, circle, circle_text(circle));
}

bool BoardThread::all_have_found(const Certain& certain, Reading& reading) const {
  return std::ranges::all_of(certain.circle, [&](const WaitInCircle& one) {
    const RankWaits* const waits = reading.of(one.rank);
    return one.rank == rank_ || (waits != nullptr && waits->circle == name_of(certain.text));
  });
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
    if (!thread_.joinable()) thread_ = std::thread([shared = shared_] { shared->run(); });
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
