// The operations of a whole group on tensors, written once, over any Transport.
//
// Contiguous CPU tensors. Sums are in rank order (all_reduce.h). Every rank hears from every other directly, so that a
// failure names the missing rank, and not one that waits for it; broadcasts are the exception. The transport's failures
// go to the caller, after which nothing more may be called. One thread at a time.
#pragma once

#include <torch/types.h>

#include <string>
#include <vector>

#include "collectives/call_facts.h"
#include "collectives/first_messages.h"
#include "collectives/transport.h"
#include "fsdp/reduce_op.h"

namespace fsdp::collectives {

class TensorCollectives {
 public:
  // The transport outlives this.
  explicit TensorCollectives(Transport& transport) : transport_(&transport) {}

  // As in TensorOperations, and all others as their namesakes.
  void compare(CallFacts* facts) { facts_ = facts; }
  void barrier();
  void all_reduce_(torch::Tensor& tensor, ReduceOp op = ReduceOp::Sum);
  void broadcast_(torch::Tensor& tensor, int source);
  std::vector<torch::Tensor> all_gather(const torch::Tensor& tensor, const std::string& purpose);
  bool exchange(const std::vector<torch::Tensor>& to, const std::vector<torch::Tensor>& from,
                const std::string& purpose);

 private:
  bool begin(const std::string& purpose, size_t bytes, const SharedBytes& first);
  void broadcast_whole(const torch::Tensor& tensor, int source);

  Transport* transport_;
  CallFacts* facts_ = nullptr;  // of the next operation
};

}  // namespace fsdp::collectives
