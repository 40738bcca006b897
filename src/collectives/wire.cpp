#include "collectives/wire.h"

#include <numeric>
#include <utility>

namespace fsdp::collectives {

Wire::Wire(std::unique_ptr<Transport> transport, std::unique_ptr<NoticeBoard> board, std::vector<int> names)
    : transport_(std::move(transport)) {
  if (names.empty()) {
    names.resize(size());
    std::iota(names.begin(), names.end(), 0);
  }
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
  struct Watched {
    Watched(std::optional<Watch>& watch, const Messages& messages) : watch(watch) {
      if (watch) watch->wait_begins(messages);
    }
    ~Watched() {
      if (watch) watch->wait_ends();
    }
    std::optional<Watch>& watch;
  };
  {
    Watched watched(watch_, messages);
    for (auto& message : messages) message->wait();
  }
  messages.clear();
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
