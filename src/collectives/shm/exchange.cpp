#include "collectives/shm/exchange.h"

#include <fmt/format.h>

#include <cstring>

#include "collectives/divergence.h"

namespace fsdp::collectives::shm {

void Exchange::begin(const std::string& purpose, uint64_t bytes) {
  ++operation_;
  bytes_ = bytes;
  purpose_ = purpose.substr(0, kPurposeBytes - 1);
}

void Exchange::round(const std::function<void(char* mailbox)>& write) {
  ++number_;
  Round& own = round_of(ranks_->rank());
  own.operation = operation_;
  own.bytes = bytes_;
  std::strcpy(own.purpose, purpose_.c_str());
  write(own.mailbox);
  ranks_->control_of(ranks_->rank()).rounds.set(number_);
  ranks_->ring();
  ranks_->wait(ranks_->peers(), purpose_, [this](int peer) {
    if (ranks_->control_of(peer).rounds.get() < number_) return false;
    check_same(peer);
    return true;
  });
}

void Exchange::check_same(int peer) const {
  const Round& theirs = round_of(peer);
  if (theirs.operation == operation_ && theirs.bytes == bytes_ && purpose_ == theirs.purpose) return;
  auto described = [&](const std::string& purpose, uint64_t bytes) {
    return theirs.bytes == bytes_ ? purpose : fmt::format("{} with {} bytes", purpose, bytes);
  };
  throw WaitFailure(WaitFailure::Kind::Diverged,
                    divergence_text({ranks_->name_of(peer), described(theirs.purpose, theirs.bytes)},
                                    {ranks_->name_of(ranks_->rank()), described(purpose_, bytes_)},
                                    fmt::format(" (operation {} of this group)", operation_)),
                    peer);
}

}  // namespace fsdp::collectives::shm
