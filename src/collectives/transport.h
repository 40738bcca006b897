// Point-to-point messages between the ranks of a group: what a network library has to offer for `exchange_group`.
//
// Messages between two ranks match by tag, and in order among equal tags. Nothing is copied: the bytes stay where they
// are until the message's `wait` returns. Destroying a message that was not waited for leaves its bytes alone from then
// on. Any thread may send, receive and abort; one waits for a message.
#pragma once

#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace fsdp::collectives {

// Why a message did not arrive, as a clause that names the peer: "rank 1 did not answer within 3000 ms". The group says
// in which operation.
class TransportFailure : public std::runtime_error {
 public:
  TransportFailure(const std::string& text, int peer) : std::runtime_error(text), peer_(peer) {}
  int peer() const { return peer_; }

 private:
  int peer_;
};

class Message {
 public:
  virtual ~Message() = default;
  // Throws TransportFailure after the transport's timeout, or when the peer is gone.
  virtual void wait() = 0;
  // Makes the wait, under way or to come, throw TransportFailure; one after that waits again. From any thread.
  virtual void abort() = 0;
};

using Messages = std::vector<std::unique_ptr<Message>>;

class Transport {
 public:
  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // `size` may be 0. Both throw TransportFailure when the peer is known to be gone.
  virtual std::unique_ptr<Message> send(const void* bytes, size_t size, int peer, int tag) = 0;
  virtual std::unique_ptr<Message> receive(void* bytes, size_t size, int peer, int tag) = 0;
};

}  // namespace fsdp::collectives
