// A call that the user makes of a World: its checks, and the facts of it that all ranks compare.
#pragma once

#include <torch/types.h>

#include <optional>
#include <vector>

#include "fsdp/reduce_op.h"
#include "world/state.h"

namespace fsdp::world {

enum class Operation : int64_t { AllReduce, Reduce, ReduceScatter, Broadcast, Scatter, AllGather, Gather, AllToAll };

const char* name_of(Operation operation);

// The facts of a call.
struct CallOf {
  Operation operation;
  std::optional<int> rank = std::nullopt;     // the source, or the root
  std::optional<ReduceOp> op = std::nullopt;  // of a sum
  const torch::Tensor* tensor = nullptr;      // null: shapes may differ
  bool is_beside = false;                     // all_reduce_async_ or broadcast_async_
};

// "all_reduce_".
const char* name_of(const CallOf& call);

// Throws Error unless the tensor is one that a world exchanges. `call` names the call: "send".
void check_tensor(const State& state, const char* call, const torch::Tensor& tensor);
// check_tensor, for a tensor that the call writes.
void check_target(const State& state, const char* call, const torch::Tensor& tensor);
// check_tensor, for a list with a tensor for each rank.
void check_list(const State& state, const char* call, const std::vector<torch::Tensor>& tensors);
// Throws Error unless the number is a rank's. `role`: "the source".
void check_rank(const State& state, const char* call, const char* role, int rank);

// While it lives, this rank is in the call, and the next operation of the group compares its facts.
class Comparison {
 public:
  Comparison(State& state, collectives::Group& group, const CallOf& call);
  ~Comparison();
  Comparison(const Comparison&) = delete;
  Comparison& operator=(const Comparison&) = delete;

  // Throws Error on every rank if the facts differ, naming the first rank whose call is not that of rank 0.
  void check() const;

 private:
  State& state_;
  collectives::TensorOperations& tensors_;
  Operation operation_;
  collectives::CallFacts facts_;
};

}  // namespace fsdp::world
