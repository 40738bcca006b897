// The operations of a group on tensors. The calls of a World are made of them (whole_tensors.h).
//
// Tensors are dense and contiguous, and on the device of the group's units or on the CPU. One thread at a time. Every
// rank calls the operations of the whole group in the same order. Messages between two ranks are in no order with
// these, and need no call of other ranks.
#pragma once

#include <torch/types.h>

#include <memory>
#include <string>
#include <vector>

#include "collectives/call_facts.h"
#include "fsdp/reduce_op.h"

namespace fsdp::collectives {

// One end of a message with a tensor, which it keeps alive. Once it is destroyed, the tensor is not used any more.
class TensorMessage {
 public:
  virtual ~TensorMessage() = default;
  // Returns when the tensor is here, or may be changed. Throws Error, then and after a failure of the group.
  virtual void wait() = 0;
  // Returns whether `wait` would return or throw at once.
  virtual bool is_over() = 0;
};

class TensorOperations {
 public:
  virtual ~TensorOperations() = default;

  // ---- The whole group
  // The next operation also compares these facts, without an exchange of its own; null: it compares none. If they
  // differ, it changes no tensor, and an operation that returns tensors returns none.
  virtual void compare(CallFacts* facts) { static_cast<void>(facts); }
  virtual void barrier() = 0;
  virtual void all_reduce_(torch::Tensor& tensor, ReduceOp op = ReduceOp::Sum) = 0;
  virtual void broadcast_(torch::Tensor& tensor, int source) = 0;
  // `tensor` has one shape on all ranks. `purpose` is this rank's action in the peers' messages.
  virtual std::vector<torch::Tensor> all_gather(const torch::Tensor& tensor,
                                                const std::string& purpose = "enters an all_gather") = 0;
  // By rank: `to[r]` goes to rank r, whose `from` has a tensor of the same shape and dtype in this rank's place.
  // Undefined and empty ones, and this rank's own, are left alone. Returns false if the facts differ.
  virtual bool exchange(const std::vector<torch::Tensor>& to, const std::vector<torch::Tensor>& from,
                        const std::string& purpose) = 0;

  // ---- This rank and another one
  // Messages match by tag, 0 to kMostTag (tags.h), and in order among equal tags. If the shape or the dtype is another
  // one at the other end, the receiver's wait throws, and the group has failed.
  virtual std::unique_ptr<TensorMessage> send(const torch::Tensor& tensor, int peer, int tag) = 0;
  virtual std::unique_ptr<TensorMessage> receive_(torch::Tensor& tensor, int peer, int tag) = 0;
};

}  // namespace fsdp::collectives
