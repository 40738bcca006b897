#include "fsdp/world.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "base/error.h"
#include "collectives/call_facts.h"
#include "world/state.h"

namespace fsdp {

namespace {

enum class Operation : int64_t { AllReduce, Broadcast, AllGather };

const char* name_of(Operation operation) {
  switch (operation) {
    case Operation::AllReduce:
      return "all_reduce_";
    case Operation::Broadcast:
      return "broadcast_";
    case Operation::AllGather:
      return "all_gather";
  }
  return "?";
}

using collectives::CallFacts;

// The facts' numbers: the operation, its source, the dtype, the dimensions, the sizes.
constexpr int64_t kMaxDims = 12;
enum Field { kOperation, kSource, kDtype, kDims, kSizes, kFields = kSizes + kMaxDims };
static_assert(kFields == std::tuple_size_v<CallFacts::Numbers>);

CallFacts facts_of(Operation operation, int source, const torch::Tensor& tensor) {
  CallFacts facts;
  CallFacts::Numbers& fields = facts.own;
  fields[kOperation] = static_cast<int64_t>(operation);
  fields[kSource] = source;
  fields[kDtype] = static_cast<int64_t>(tensor.scalar_type());
  fields[kDims] = tensor.dim();
  std::copy(tensor.sizes().begin(), tensor.sizes().end(), fields.begin() + kSizes);
  return facts;
}

std::string describe(const CallFacts::Numbers& fields) {
  auto operation = static_cast<Operation>(fields[kOperation]);
  std::vector<int64_t> sizes(fields.begin() + kSizes, fields.begin() + kSizes + fields[kDims]);
  return fmt::format("{}{} of a {} tensor of shape [{}]", name_of(operation),
                     operation == Operation::Broadcast ? fmt::format(" from rank {}", fields[kSource]) : "",
                     c10::toString(static_cast<c10::ScalarType>(fields[kDtype])), fmt::join(sizes, ", "));
}

void check_tensor(const world::State& state, Operation operation, const torch::Tensor& tensor) {
  const torch::Device& device = state.device();
  FSDP_CHECK(tensor.defined() && (tensor.is_cpu() || tensor.device() == device) && tensor.layout() == torch::kStrided,
             "{}: found {}, expected a dense tensor on the CPU{}.", name_of(operation),
             tensor.defined()
                 ? fmt::format("a {} one on {}", c10::toString(tensor.scalar_type()), tensor.device().str())
                 : "an undefined tensor",
             device.is_cpu() ? "" : fmt::format(" or on {}", device.str()));
  FSDP_CHECK(tensor.dim() <= kMaxDims, "{}: found a tensor of {} dimensions, expected at most {}. Flatten it first.",
             name_of(operation), tensor.dim(), kMaxDims);
}

// Throws on every rank, naming the first that differs from rank 0.
void check_same(const world::State& state, Operation operation, const CallFacts& facts) {
  const std::vector<CallFacts::Numbers>& all = facts.of_ranks;
  for (size_t rank = 1; rank < all.size(); ++rank)
    FSDP_CHECK(all[rank] == all[0],
               "{}: rank {} found {}, expected {} as on rank {}. Make the same call on every rank.", name_of(operation),
               state.world_ranks()[rank], describe(all[rank]), describe(all[0]), state.world_ranks()[0]);
}

// While it lives, the next operation of the group compares the facts.
class Comparison {
 public:
  Comparison(collectives::TensorOperations& tensors, CallFacts& facts) : tensors_(tensors) { tensors_.compare(&facts); }
  ~Comparison() { tensors_.compare(nullptr); }
  Comparison(const Comparison&) = delete;
  Comparison& operator=(const Comparison&) = delete;

 private:
  collectives::TensorOperations& tensors_;
};

// Runs `exchange`, which is one operation of the group, as a call of this world.
template <typename Exchange>
void in_call(world::State& state, Operation operation, int source, const torch::Tensor& tensor, Exchange&& exchange) {
  check_tensor(state, operation, tensor);
  const world::State::Call call(state, fmt::format("calls World::{}", name_of(operation)));
  CallFacts facts = facts_of(operation, source, tensor);
  {
    const Comparison comparison(state.group().tensors(), facts);
    exchange();
  }
  check_same(state, operation, facts);
}

// Runs `exchange` on contiguous memory, and puts the result where the caller has it.
template <typename Exchange>
void in_place(torch::Tensor& tensor, Exchange&& exchange) {
  torch::NoGradGuard no_grad;
  torch::Tensor values = tensor.detach();
  torch::Tensor contiguous = values.contiguous();
  exchange(contiguous);
  if (!contiguous.is_same(values)) values.copy_(contiguous);
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

void World::all_reduce_(torch::Tensor& tensor) {
  in_call(*state_, Operation::AllReduce, 0, tensor,
          [&] { in_place(tensor, [&](torch::Tensor& contiguous) { state_->group().all_reduce_(contiguous); }); });
}

void World::broadcast_(torch::Tensor& tensor, int source) {
  FSDP_CHECK(0 <= source && source < size(), "broadcast_: the source is rank {}, expected 0 to {}.", source,
             size() - 1);
  in_call(*state_, Operation::Broadcast, source, tensor, [&] {
    in_place(tensor, [&](torch::Tensor& contiguous) { state_->group().broadcast_(contiguous, source); });
  });
}

std::vector<torch::Tensor> World::all_gather(const torch::Tensor& tensor) {
  std::vector<torch::Tensor> all;
  in_call(*state_, Operation::AllGather, 0, tensor, [&] {
    torch::NoGradGuard no_grad;
    all = state_->group().all_gather(tensor.detach().contiguous());
  });
  return all;
}

World World::split(int color) const {
  const world::State::Call call(*state_, "calls World::split");
  return World(state_->split(color));
}

}  // namespace fsdp
