// Point-to-point messages between the ranks of a group: what a network library has to offer for `exchange_group`.
//
// Messages between two ranks match by tag, and in order among equal tags. Nothing is copied: the bytes stay where they
// are until the message's `wait` returns.
#pragma once

#include <cstddef>
#include <memory>

namespace fsdp::collectives {

class Message {
 public:
  virtual ~Message() = default;
  // Throws Error after the transport's timeout, or when the peer is gone.
  virtual void wait() = 0;
};

class Transport {
 public:
  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::unique_ptr<Message> send(const void* bytes, size_t size, int peer, int tag) = 0;
  virtual std::unique_ptr<Message> receive(void* bytes, size_t size, int peer, int tag) = 0;
};

}  // namespace fsdp::collectives
