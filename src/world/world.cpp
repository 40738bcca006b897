#include "fsdp/world.h"

#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/error.h"
#include "collectives/reduction.h"
#include "collectives/tags.h"
#include "collectives/whole_tensors.h"
#include "world/call.h"
#include "world/state.h"

namespace fsdp {

namespace {

using collectives::Group;
using world::CallOf;
using world::Operation;
using world::State;

// Runs `exchange`, whose first operation of the group compares the facts of the call, and returns its result.
template <typename Exchange>
auto compared(State& state, Group& group, const CallOf& call, Exchange&& exchange) {
  const world::Comparison comparison(state, group, call);
  if constexpr (std::is_void_v<std::invoke_result_t<Exchange>>) {
    exchange();
    comparison.check();
  } else {
    auto result = exchange();
    comparison.check();
    return result;
  }
}

// The same with the world's own group, as a call that its ranks see.
template <typename Exchange>
auto in_call(State& state, const CallOf& call, Exchange&& exchange) {
  const State::Call scope(state, fmt::format("calls World::{}", name_of(call)));
  return compared(state, state.group(), call, exchange);
}

// A contiguous tensor with the values themselves: no view that conjugates or negates what lies in memory.
torch::Tensor as_bytes_lie(const torch::Tensor& tensor) {
  return tensor.detach().resolve_conj().resolve_neg().contiguous();
}

// `written`: of as_bytes_lie. Autograd learns that `values` have changed.
void put_back(const torch::Tensor& written, torch::Tensor& values) {
  if (!written.is_same(values)) {
    values.copy_(written);
  } else if (!values.is_inference()) {
    values.unsafeGetTensorImpl()->bump_version();
  }
}

// Runs `exchange` on contiguous memory, and puts the result where the caller has it.
template <typename Exchange>
void in_place(torch::Tensor& tensor, Exchange&& exchange) {
  torch::NoGradGuard no_grad;
  torch::Tensor values = tensor.detach();
  torch::Tensor contiguous = as_bytes_lie(values);
  exchange(contiguous);
  put_back(contiguous, values);
}

using Tensors = std::vector<torch::Tensor>;

Tensors contiguous(const Tensors& tensors) {
  Tensors result;
  for (const torch::Tensor& tensor : tensors) result.push_back(as_bytes_lie(tensor));
  return result;
}

}  // namespace

int World::rank() const { return state_->identity().rank; }
int World::size() const { return state_->identity().size; }
int World::local_rank() const { return state_->identity().local_rank; }
int World::local_size() const { return state_->identity().local_size; }
int World::restarts() const { return state_->identity().restarts; }
torch::Device World::device() const { return state_->device(); }

void World::barrier() {
  const world::State::Call call(*state_, "calls World::barrier");
  state_->group().barrier();
}

namespace {

void check_peer(const State& state, const char* call, int peer, int tag) {
  check_rank(state, call, "the peer", peer);
  FSDP_CHECK(peer != state.identity().rank, "{}: the peer is rank {}, which is this rank. Copy the tensor instead.",
             call, peer);
  FSDP_CHECK(0 <= tag && tag <= collectives::kMostTag, "{}: found tag {}, expected 0 to {}.", call, tag,
             collectives::kMostTag);
}

}  // namespace

void World::all_reduce_(torch::Tensor& tensor, ReduceOp op) {
  check_target(*state_, "all_reduce_", tensor);
  collectives::check_can_reduce(tensor.scalar_type(), op, "all_reduce_");
  in_call(*state_, {.operation = Operation::AllReduce, .op = op, .tensor = &tensor},
          [&] { in_place(tensor, [&](torch::Tensor& contiguous) { state_->group().all_reduce_(contiguous, op); }); });
}

void World::reduce_(torch::Tensor& tensor, int root, ReduceOp op) {
  check_target(*state_, "reduce_", tensor);
  check_rank(*state_, "reduce_", "the root", root);
  collectives::check_can_reduce(tensor.scalar_type(), op, "reduce_");
  in_call(*state_, {.operation = Operation::Reduce, .rank = root, .op = op, .tensor = &tensor}, [&] {
    in_place(tensor, [&](torch::Tensor& contiguous) { collectives::reduce_(state_->group(), contiguous, root, op); });
  });
}

torch::Tensor World::reduce_scatter(const torch::Tensor& tensor, ReduceOp op) {
  check_tensor(*state_, "reduce_scatter", tensor);
  collectives::check_can_reduce(tensor.scalar_type(), op, "reduce_scatter");
  FSDP_CHECK(tensor.dim() > 0 && tensor.size(0) % size() == 0,
             "reduce_scatter: found a tensor of shape {}, expected a first dimension that {} ranks divide evenly.",
             fmt::format("[{}]", fmt::join(tensor.sizes(), ", ")), size());
  return in_call(*state_, {.operation = Operation::ReduceScatter, .op = op, .tensor = &tensor},
                 [&] { return collectives::reduce_scatter(state_->group(), as_bytes_lie(tensor), op); });
}

void World::broadcast_(torch::Tensor& tensor, int source) {
  check_target(*state_, "broadcast_", tensor);
  check_rank(*state_, "broadcast_", "the source", source);
  in_call(*state_, {.operation = Operation::Broadcast, .rank = source, .tensor = &tensor}, [&] {
    in_place(tensor, [&](torch::Tensor& contiguous) { state_->group().broadcast_(contiguous, source); });
  });
}

torch::Tensor World::scatter(const std::vector<torch::Tensor>& tensors, int source) {
  check_rank(*state_, "scatter", "the source", source);
  if (rank() == source) check_list(*state_, "scatter", tensors);
  return in_call(*state_, {.operation = Operation::Scatter, .rank = source}, [&] {
    return collectives::scatter(state_->group(), rank() == source ? contiguous(tensors) : Tensors(), source, device());
  });
}

std::vector<torch::Tensor> World::all_gather(const torch::Tensor& tensor) {
  check_tensor(*state_, "all_gather", tensor);
  return in_call(*state_, {.operation = Operation::AllGather, .tensor = &tensor}, [&] {
    torch::NoGradGuard no_grad;
    return state_->group().all_gather(as_bytes_lie(tensor));
  });
}

std::vector<torch::Tensor> World::gather(const torch::Tensor& tensor, int root) {
  check_tensor(*state_, "gather", tensor);
  check_rank(*state_, "gather", "the root", root);
  return in_call(*state_, {.operation = Operation::Gather, .rank = root, .tensor = &tensor},
                 [&] { return collectives::gather(state_->group(), as_bytes_lie(tensor), root); });
}

std::vector<torch::Tensor> World::all_to_all(const std::vector<torch::Tensor>& tensors) {
  check_list(*state_, "all_to_all", tensors);
  return in_call(*state_, {.operation = Operation::AllToAll},
                 [&] { return collectives::all_to_all(state_->group(), contiguous(tensors), device()); });
}

void World::send(const torch::Tensor& tensor, int peer, int tag) { send_async(tensor, peer, tag).wait(); }

void World::receive_(torch::Tensor& tensor, int peer, int tag) { receive_async_(tensor, peer, tag).wait(); }

Work World::send_async(const torch::Tensor& tensor, int peer, int tag) {
  check_tensor(*state_, "send", tensor);
  check_peer(*state_, "send", peer, tag);
  state_->run_before_call();
  const torch::Tensor values = as_bytes_lie(tensor);
  auto message = state_->group().tensors().send(values, peer, tag);
  return Work(state_->keep(std::make_shared<world::PendingMessage>(std::move(message))));
}

Work World::receive_async_(torch::Tensor& tensor, int peer, int tag) {
  check_target(*state_, "receive_", tensor);
  check_peer(*state_, "receive_", peer, tag);
  state_->run_before_call();
  torch::NoGradGuard no_grad;
  torch::Tensor values = tensor.detach(), arriving = as_bytes_lie(values);
  auto message = state_->group().tensors().receive_(arriving, peer, tag);
  const auto put_in_place = [values, arriving]() mutable {
    torch::NoGradGuard no_grad;
    put_back(arriving, values);
  };
  return Work(state_->keep(std::make_shared<world::PendingMessage>(std::move(message), put_in_place)));
}

Work World::all_reduce_async_(torch::Tensor& tensor, ReduceOp op) {
  check_target(*state_, "all_reduce_async_", tensor);
  collectives::check_can_reduce(tensor.scalar_type(), op, "all_reduce_async_");
  state_->run_before_call();
  const auto call = [state = state_.get().get(), tensor, op](Group& group) mutable {
    compared(*state, group, {.operation = Operation::AllReduce, .op = op, .tensor = &tensor, .is_beside = true},
             [&] { in_place(tensor, [&](torch::Tensor& contiguous) { group.all_reduce_(contiguous, op); }); });
  };
  return Work(state_->keep(state_->run_beside("calls World::all_reduce_async_", call)));
}

Work World::broadcast_async_(torch::Tensor& tensor, int source) {
  check_target(*state_, "broadcast_async_", tensor);
  check_rank(*state_, "broadcast_async_", "the source", source);
  state_->run_before_call();
  const auto call = [state = state_.get().get(), tensor, source](Group& group) mutable {
    compared(*state, group, {.operation = Operation::Broadcast, .rank = source, .tensor = &tensor, .is_beside = true},
             [&] { in_place(tensor, [&](torch::Tensor& contiguous) { group.broadcast_(contiguous, source); }); });
  };
  return Work(state_->keep(state_->run_beside("calls World::broadcast_async_", call)));
}

World World::split(int color) const {
  const world::State::Call call(*state_, "calls World::split");
  return World(state_->split(color));
}

}  // namespace fsdp
