// A transport over another one that remembers its first failure: what the collectives of one group share.
//
// After a failure the ranks no longer agree on what was exchanged, so every later call throws the first error again.
// With a status board, the error is the cause: a rank that diverged, or the first failure of a peer.
// One thread at a time. Shared by a group and its units, which may outlive the group.
#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/failure_latch.h"
#include "collectives/group.h"
#include "collectives/pumps.h"
#include "collectives/status_board.h"
#include "collectives/transport.h"
#include "collectives/watchdog.h"

namespace fsdp::collectives {

class Wire final : public Transport {
 public:
  // A wait, which the peers are told of if it is long. Meanwhile the watchdog may abort the messages.
  class WaitScope {
   public:
    // `unless_waiting`: a peer whose own long wait ends this one.
    explicit WaitScope(Wire& wire, std::span<const std::unique_ptr<Message>> messages = {},
                       std::optional<int> unless_waiting = {})
        : watchdog_(wire.watchdog_) {
      if (watchdog_) watchdog_->wait_begins(messages, unless_waiting);
    }
    ~WaitScope() {
      if (watchdog_) watchdog_->wait_ends();
    }
    WaitScope(const WaitScope&) = delete;
    WaitScope& operator=(const WaitScope&) = delete;

   private:
    std::optional<Watchdog>& watchdog_;
    const PumpedWait pumped_;
  };

  // `names` is how messages call the ranks; empty: by their own number. `calls` are this rank's calls of its worlds.
  // `place`: of the group in these.
  Wire(std::unique_ptr<Transport> transport, std::unique_ptr<StatusBoard> board, std::vector<int> names,
       std::shared_ptr<WorldCalls> calls = nullptr, const WorldCalls::Place& place = {});

  int rank() const override { return transport_->rank(); }
  int size() const override { return transport_->size(); }
  int name_of(int rank) const override { return names_[rank]; }
  bool failed() const { return latch_.failed(); }

  std::unique_ptr<Message> send(const void* bytes, size_t size, int peer, int tag) override {
    return transport_->send(bytes, size, peer, tag);
  }
  std::unique_ptr<Message> receive(void* bytes, size_t size, int peer, int tag) override {
    return transport_->receive(bytes, size, peer, tag);
  }
  void begin_operation(const std::string& purpose, size_t) override { begins(purpose); }
  void wait_all(Messages& messages) override;
  void wait_for(const std::unique_ptr<Message>& message, const std::string&) override {
    const WaitScope waiting(*this, {&message, 1});
    message->wait();
  }

  // Notes an operation that every rank begins at the same place in its order: "gathers blocks.4".
  void begins(std::string operation, Among among = Among::All);
  // As Group::note_call.
  void note_call(const WorldCall* call);
  // Like `wait_all`. The first messages are those of `senders`, or of `peers()`, one each. False if one of them is
  // missing and its sender waits for long itself: the message stays, and can be waited for again.
  bool wait_unless_stalled(Messages& messages, const std::vector<int>& senders);
  bool wait_unless_stalled(Messages& messages) { return wait_unless_stalled(messages, peers()); }

  // Runs `exchange`, unless an earlier one failed. `prefix` starts the message and `operation` names what was tried.
  template <typename Exchange>
  auto guarded(const std::string& prefix, const char* operation, Exchange&& exchange) {
    return latch_.run(exchange, [&](const std::exception_ptr& failure) { return explain(prefix, operation, failure); });
  }

 private:
  // After a failure of `operation`: notifies the peers, and returns the caller's error.
  std::exception_ptr explain(const std::string& prefix, const char* operation, const std::exception_ptr& failure);
  std::exception_ptr explain_transport(const std::string& start, const TransportFailure& failure);
  void tell(Failure failure);

  std::unique_ptr<Transport> transport_;
  std::vector<int> names_;
  FailureLatch latch_;
  std::optional<Watchdog> watchdog_;  // ends before the connections, so that a failure is explained before they close
};

}  // namespace fsdp::collectives
