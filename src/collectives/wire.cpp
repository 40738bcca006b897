#include "collectives/wire.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <thread>
#include <utility>

namespace fsdp::collectives {

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Between looks at messages, and at what peers say of themselves, which only long waits say.
constexpr milliseconds kBetweenLooks{1};
constexpr milliseconds kBetweenNotices{200};

// While it lives, the watch may abort the messages.
class Watched {
 public:
  Watched(std::optional<Watch>& watch, const Messages& messages) : watch_(watch) {
    if (watch_) watch_->wait_begins(messages);
  }
  ~Watched() {
    if (watch_) watch_->wait_ends();
  }
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;

 private:
  std::optional<Watch>& watch_;
};

}  // namespace

Wire::Wire(std::unique_ptr<Transport> transport, std::unique_ptr<NoticeBoard> board, std::vector<int> names)
    : transport_(std::move(transport)) {
  if (names.empty()) {
    names.resize(size());
    std::iota(names.begin(), names.end(), 0);
  }
  names_ = names;
  name_ = names[rank()];
  if (board) watch_.emplace(std::move(board), rank(), std::move(names));
}

std::vector<int> Wire::peers() const {
  std::vector<int> peers;
  for (int i = 1; i < size(); ++i) peers.push_back((rank() + i) % size());
  return peers;
}

void Wire::begins(std::string operation) {
  if (watch_) watch_->begins(std::move(operation));
}

void Wire::wait_all(Messages& messages) {
  {
    Watched watched(watch_, messages);
    for (auto& message : messages) message->wait();
  }
  messages.clear();
}

bool Wire::wait_unless_stalled(const Messages& messages) {
  const auto is_done = [](const auto& message) { return message->done(); };
  if (!watch_ || std::all_of(messages.begin(), messages.end(), is_done)) return true;
  Watched watched(watch_, messages);
  const auto begin = steady_clock::now();
  for (auto look = begin + kBetweenNotices;; std::this_thread::sleep_for(kBetweenLooks)) {
    const auto open = std::find_if_not(messages.begin(), messages.end(), is_done);
    if (open == messages.end()) return true;
    const auto now = steady_clock::now();
    if (now < look) continue;
    look = now + kBetweenNotices;
    const int peer = peers()[open - messages.begin()];
    if (watch_->waits(peer)) return false;
    if (now - begin > transport_->timeout()) {
      throw TransportFailure::no_answer(peer, names_[peer], transport_->timeout());
    }
  }
}

void Wire::fail(const std::string& prefix, const TransportFailure& failure) {
  const std::optional<Finding> finding = watch_ ? watch_->explain(failure.peer()) : std::nullopt;
  const std::string message = prefix + (finding ? finding->text : failure.what());
  const bool diverged = finding && !finding->cause;
  failure_ = diverged ? std::make_exception_ptr(Error(message)) : std::make_exception_ptr(PeerLost(message));
  tell(finding && finding->cause ? *finding->cause : Failure{name_, message, !diverged});
}

void Wire::tell(Failure failure) {
  if (watch_) watch_->fails(std::move(failure));
}

}  // namespace fsdp::collectives
