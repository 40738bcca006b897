#include "world/call.h"

#include <ATen/MemoryOverlap.h>

#include <algorithm>
#include <string>
#include <tuple>

#include "base/error.h"
#include "base/rank_names.h"
#include "collectives/reduction.h"
#include "collectives/tensor_header.h"

namespace fsdp::world {

namespace {

using collectives::CallFacts;
using collectives::TensorHeader;

// The facts' numbers: the operation with its ReduceOp, its rank, the dtype with the device, the dimensions, the sizes.
enum Field { kOperation, kRank, kDtype, kDims, kSizes, kFields = kSizes + TensorHeader::kMostDims };
static_assert(kFields == std::tuple_size_v<CallFacts::Numbers>);

constexpr int64_t kNone = -1;
constexpr int64_t kReduceOps = 8;

CallFacts facts_of(const CallOf& call) {
  CallFacts facts{.call = name_of(call)};
  CallFacts::Numbers& fields = facts.own;
  const int64_t op = call.op ? static_cast<int64_t>(*call.op) : 0;
  fields[kOperation] = static_cast<int64_t>(call.operation) * kReduceOps + op;
  fields[kRank] = call.rank ? *call.rank : kNone;
  fields[kDims] = kNone;
  if (call.tensor == nullptr) return facts;
  fields[kDtype] = static_cast<int64_t>(call.tensor->scalar_type()) * 2 + call.tensor->is_cpu();
  fields[kDims] = call.tensor->dim();
  std::copy(call.tensor->sizes().begin(), call.tensor->sizes().end(), fields.begin() + kSizes);
  return facts;
}

bool reduces(Operation operation) {
  return operation == Operation::AllReduce || operation == Operation::Reduce || operation == Operation::ReduceScatter;
}

// "reduce_ to rank 1 by Max of a Float tensor of shape [4]"
std::string describe(const CallFacts::Numbers& fields) {
  const auto operation = static_cast<Operation>(fields[kOperation] / kReduceOps);
  const auto op = static_cast<ReduceOp>(fields[kOperation] % kReduceOps);
  std::string text = name_of(operation);
  const bool has_root = operation == Operation::Reduce || operation == Operation::Gather;
  if (fields[kRank] != kNone) text += fmt::format(" {} rank {}", has_root ? "to" : "from", fields[kRank]);
  if (reduces(operation) && op != ReduceOp::Sum) text += fmt::format(" by {}", collectives::name_of(op));
  if (fields[kDims] == kNone) return text;
  TensorHeader header{.dtype = fields[kDtype] / 2, .on_cpu = fields[kDtype] % 2, .dims = fields[kDims]};
  std::copy(fields.begin() + kSizes, fields.end(), header.sizes.begin());
  return text + " of " + collectives::describe(header) + (header.on_cpu ? "" : " on a GPU");
}

}  // namespace

const char* name_of(Operation operation) {
  switch (operation) {
    case Operation::AllReduce:
      return "all_reduce_";
    case Operation::Reduce:
      return "reduce_";
    case Operation::ReduceScatter:
      return "reduce_scatter";
    case Operation::Broadcast:
      return "broadcast_";
    case Operation::Scatter:
      return "scatter";
    case Operation::AllGather:
      return "all_gather";
    case Operation::Gather:
      return "gather";
    case Operation::AllToAll:
      return "all_to_all";
  }
  return "?";
}

const char* name_of(const CallOf& call) {
  if (!call.is_beside) return name_of(call.operation);
  return call.operation == Operation::Broadcast ? "broadcast_async_" : "all_reduce_async_";
}

void check_tensor(const State& state, const char* call, const torch::Tensor& tensor) {
  const torch::Device& device = state.device();
  FSDP_CHECK(tensor.defined() && (tensor.is_cpu() || tensor.device() == device) && tensor.layout() == torch::kStrided,
             "{}: found {}, expected a dense tensor on the CPU{}.", call,
             tensor.defined()
                 ? fmt::format("a {} one on {}", c10::toString(tensor.scalar_type()), tensor.device().str())
                 : "an undefined tensor",
             device.is_cpu() ? "" : fmt::format(" or on {}", device.str()));
  FSDP_CHECK(!tensor.is_quantized(), "{}: found a quantized tensor. Exchange tensor.int_repr(), or dequantize it.",
             call);
  FSDP_CHECK(tensor.dim() <= TensorHeader::kMostDims,
             "{}: found a tensor of {} dimensions, expected at most {}. Flatten it first.", call, tensor.dim(),
             TensorHeader::kMostDims);
}

void check_target(const State& state, const char* call, const torch::Tensor& tensor) {
  check_tensor(state, call, tensor);
  FSDP_CHECK(at::has_internal_overlap(tensor) != at::MemOverlap::Yes,
             "{}: found an expanded tensor, several elements of which lie in one place. Give it memory of its own: "
             "tensor = tensor.clone().",
             call);
}

void check_list(const State& state, const char* call, const std::vector<torch::Tensor>& tensors) {
  const int size = state.identity().size;
  FSDP_CHECK(static_cast<int>(tensors.size()) == size,
             "{}: found a list of {} tensors, expected {}: one for each rank.", call, tensors.size(), size);
  for (const torch::Tensor& tensor : tensors) {
    check_tensor(state, call, tensor);
    FSDP_CHECK(tensor.device() == tensors[0].device(),
               "{}: found tensors on {} and on {}, expected one device for the whole list.", call,
               tensors[0].device().str(), tensor.device().str());
  }
}

void check_rank(const State& state, const char* call, const char* role, int rank) {
  FSDP_CHECK(0 <= rank && rank < state.identity().size, "{}: {} is rank {}, expected 0 to {}.", call, role, rank,
             state.identity().size - 1);
}

Comparison::Comparison(State& state, collectives::Group& group, const CallOf& call)
    : state_(state), tensors_(group.tensors()), operation_(call.operation), facts_(facts_of(call)) {
  tensors_.compare(&facts_);
}

Comparison::~Comparison() { tensors_.compare(nullptr); }

void Comparison::check() const {
  const std::vector<CallFacts::Numbers>& all = facts_.of_ranks;
  for (size_t rank = 1; rank < all.size(); ++rank)
    FSDP_CHECK(all[rank] == all[0], "{}: {} found {}, expected {} as on {}. Make the same call on every rank.",
               name_of(operation_), text_of_rank(state_.world_ranks()[rank]), describe(all[rank]), describe(all[0]),
               text_of_rank(state_.world_ranks()[0]));
  FSDP_CHECK(!facts_.differ(), "{}: the ranks' tensors differ in their bytes. Make the same call on every rank.",
             name_of(operation_));
}

}  // namespace fsdp::world
