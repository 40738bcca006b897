// Point-to-point messages between the ranks of a group, on which the operations of the whole group are built
// (tensor_collectives.h).
//
// Messages between two ranks match by tag, and in order among equal tags. Nothing is copied: the bytes stay where they
// are until the message's `wait` returns. Destroying a message that was not waited for leaves its bytes alone from then
// on. Any thread may send, receive and abort; one waits for a message.
#pragma once

#include <cstddef>
#include <cstdint>
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
  // Returns whether `wait` would return or throw at once, as far as it is known here.
  virtual bool is_over() { return false; }
};

using Messages = std::vector<std::unique_ptr<Message>>;

class Transport {
 public:
  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // How messages call a rank.
  virtual int name_of(int rank) const { return rank; }
  // `size` may be 0. Both throw TransportFailure when the peer is known to be gone.
  virtual std::unique_ptr<Message> send(const void* bytes, size_t size, int peer, int tag) = 0;
  virtual std::unique_ptr<Message> receive(void* bytes, size_t size, int peer, int tag) = 0;

  // One message for all other ranks, each of which takes it by `receive_shared`. Its tag is none of other messages.
  virtual void share(const void* bytes, size_t size, int tag, Messages& messages) {
    for (int peer : peers()) messages.push_back(send(bytes, size, peer, tag));
  }
  virtual std::unique_ptr<Message> receive_shared(void* bytes, size_t size, int peer, int tag) {
    return receive(bytes, size, peer, tag);
  }
  // A long sum is made in blocks of so many bytes for each rank.
  virtual int64_t chunk_bytes() const { return 1 << 20; }
  // True if this rank moves the bytes of `share` once, and not once for each peer.
  virtual bool shares_once() const { return false; }

  // This rank begins an operation of the whole group, which every rank begins at the same place in its order.
  // `purpose` follows "rank 1 " in messages; it and `bytes` are the same on every rank. A transport may compare them.
  virtual void begin_operation(const std::string& purpose, size_t bytes) {
    static_cast<void>(purpose), static_cast<void>(bytes);
  }
  // True if an operation's first `wait_all` returns when all ranks have begun the operation.
  virtual bool begins_together() const { return false; }
  // Waits for all and forgets them. Those not waited for when one throws stay, so that their memory stays known.
  virtual void wait_all(Messages& messages) {
    for (const auto& message : messages) message->wait();
    messages.clear();
  }

  // Waits for a message between two ranks that belongs to no operation of the whole group (tags.h). `purpose` as above.
  virtual void wait_for(const std::unique_ptr<Message>& message, const std::string& purpose) {
    static_cast<void>(purpose);
    message->wait();
  }

  // All other ranks, starting behind this one so that not all talk to rank 0 first.
  std::vector<int> peers() const {
    std::vector<int> peers;
    for (int i = 1; i < size(); ++i) peers.push_back((rank() + i) % size());
    return peers;
  }
};

}  // namespace fsdp::collectives
