// The operations of a group whose backend offers messages: each runs in the group's guard, which turns a failure into
// the group's first error.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "collectives/pair_message.h"
#include "collectives/tensor_collectives.h"
#include "collectives/tensor_operations.h"

namespace fsdp::collectives {

// A message in the group's guard.
template <typename Guard>
class GuardedMessage final : public TensorMessage {
 public:
  GuardedMessage(PairMessage message, const char* name, Guard guard)
      : message_(std::move(message)), name_(name), guard_(std::move(guard)) {}

  void wait() override {
    guard_(name_, [&] { message_.wait(); });
  }
  bool is_over() override { return message_.is_over(); }

 private:
  PairMessage message_;
  const char* name_;
  Guard guard_;
};

// `Guard` is called with the operation's name and a function to run, and returns what that returns.
template <typename Guard>
class GuardedOperations final : public TensorOperations {
 public:
  // The transport outlives this.
  GuardedOperations(Transport& transport, Guard guard)
      : transport_(transport), collectives_(transport), guard_(std::move(guard)) {}

  void compare(CallFacts* facts) override {
    call_ = facts ? facts->call : nullptr;
    collectives_.compare(facts);
  }
  void barrier() override {
    guard_(named("barrier"), [&] { collectives_.barrier(); });
  }
  void all_reduce_(torch::Tensor& tensor, ReduceOp op) override {
    guard_(named("all_reduce"), [&] { collectives_.all_reduce_(tensor, op); });
  }
  void broadcast_(torch::Tensor& tensor, int source) override {
    guard_(named("broadcast"), [&] { collectives_.broadcast_(tensor, source); });
  }
  std::vector<torch::Tensor> all_gather(const torch::Tensor& tensor, const std::string& purpose) override {
    return guard_(named("all_gather"), [&] { return collectives_.all_gather(tensor, purpose); });
  }
  bool exchange(const std::vector<torch::Tensor>& to, const std::vector<torch::Tensor>& from,
                const std::string& purpose) override {
    return guard_(named("exchange"), [&] { return collectives_.exchange(to, from, purpose); });
  }
  std::unique_ptr<TensorMessage> send(const torch::Tensor& tensor, int peer, int tag) override {
    return begin("send", tensor, PairMessage::Direction::Send, peer, tag);
  }
  std::unique_ptr<TensorMessage> receive_(torch::Tensor& tensor, int peer, int tag) override {
    return begin("receive", tensor, PairMessage::Direction::Receive, peer, tag);
  }

 private:
  std::unique_ptr<TensorMessage> begin(const char* name, const torch::Tensor& tensor, PairMessage::Direction direction,
                                       int peer, int tag) {
    return guard_(name, [&] {
      return std::make_unique<GuardedMessage<Guard>>(PairMessage(transport_, tensor, direction, peer, tag), name,
                                                     guard_);
    });
  }

  // The operation is a part of the call that compares its facts.
  const char* named(const char* operation) const { return call_ ? call_ : operation; }

  Transport& transport_;
  TensorCollectives collectives_;
  Guard guard_;
  const char* call_ = nullptr;
};

}  // namespace fsdp::collectives
