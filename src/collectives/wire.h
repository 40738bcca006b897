// A transport that remembers its first failure: what the collectives of one group share.
//
// After a failure the ranks no longer agree on what was exchanged, so every later call throws the first error again.
// One thread at a time. Shared by a group and its units, which may outlive the group.
#pragma once

#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "collectives/group.h"
#include "collectives/transport.h"

namespace fsdp::collectives {

using Messages = std::vector<std::unique_ptr<Message>>;

// Waits for all and forgets them. Those not waited for when one throws stay, so that their memory stays known.
void wait_all(Messages& messages);

class Wire {
 public:
  explicit Wire(std::unique_ptr<Transport> transport) : transport_(std::move(transport)) {}

  int rank() const { return transport_->rank(); }
  int size() const { return transport_->size(); }
  bool failed() const { return failure_ != nullptr; }
  std::vector<int> peers() const;  // all other ranks, starting behind this one so that not all talk to rank 0 first

  std::unique_ptr<Message> send(const void* bytes, size_t size, int peer, int tag) {
    return transport_->send(bytes, size, peer, tag);
  }
  std::unique_ptr<Message> receive(void* bytes, size_t size, int peer, int tag) {
    return transport_->receive(bytes, size, peer, tag);
  }

  // Runs `exchange`, unless an earlier one failed. `prefix` starts the message and `operation` names what was tried.
  template <typename Exchange>
  auto guarded(const std::string& prefix, const char* operation, Exchange&& exchange) {
    if (failure_) std::rethrow_exception(failure_);
    try {
      return exchange();
    } catch (const TransportFailure& failure) {
      failure_ = std::make_exception_ptr(PeerLost(fmt::format("{}{}: {}", prefix, operation, failure.what())));
    } catch (...) {
      failure_ = std::current_exception();
    }
    std::rethrow_exception(failure_);
  }

 private:
  std::unique_ptr<Transport> transport_;
  std::exception_ptr failure_;
};

}  // namespace fsdp::collectives
