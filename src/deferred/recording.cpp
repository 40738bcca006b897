#include "deferred/recording.h"

#include <optional>
#include <utility>

#include "base/error.h"
#include "deferred/arguments.h"
#include "deferred/default_generator.h"
#include "deferred/deferrable.h"
#include "deferred/meta_call.h"
#include "deferred/operator_traits.h"
#include "deferred/tensors_within.h"
#include "interpose/piece_storage.h"

namespace fsdp::deferred {

namespace {

using interpose::DeferredStorage;
using torch::jit::Stack;

std::vector<std::pair<torch::Tensor, torch::Tensor>> pairs_of(const std::vector<c10::IValue>& meta,
                                                              const Stack& arguments) {
  std::vector<std::pair<torch::Tensor, torch::Tensor>> pairs;
  for (const c10::IValue& value : meta) for_each_tensor(value, [&](const auto& one) { pairs.emplace_back(one, one); });
  auto pair = pairs.begin();
  for (const c10::IValue& value : arguments) for_each_tensor(value, [&](const auto& one) { (pair++)->second = one; });
  return pairs;
}

// A tensor over a storage that a sharded parameter has left.
void check_not_left(const c10::OperatorHandle& operation, const Stack& arguments) {
  const auto check = [&](const torch::Tensor& tensor) {
    const DeferredStorage* storage = DeferredStorage::of(tensor);
    FSDP_CHECK(storage == nullptr || storage->left_by().empty(), "{} was called on a deferred tensor, but {}",
               name_of(operation), interpose::left_behind(storage->left_by()));
  };
  for (const c10::IValue& argument : arguments) for_each_tensor(argument, check);
}

}  // namespace

void Recording::operator_called(const c10::OperatorHandle& operation, c10::DispatchKeySet below, Stack& stack) {
  if (leaves_bytes_alone(operation) || interpose::is_composite(operation)) {
    return operation.redispatchBoxed(below, &stack);
  }
  const auto self = shared_from_this();  // the arguments may be the last to hold it
  interpose::Unwatched ours;
  const Stack arguments = take_arguments(operation, stack);
  check_not_left(operation, arguments);
  const TensorsTaken taken = tensors_taken(operation, arguments);
  const bool draws = draws_numbers(operation);
  const bool makes = makes_of_size(operation) && !(makes_empty(operation) && interpose::makes_tensor_of_numbers());
  if (!taken.deferred && !draws && !makes) {
    push_all(stack, arguments);
    return operation.redispatchBoxed(below, &stack);
  }
  FSDP_CHECK(is_open() || (taken.writes_deferred && !gives_values(operation)),
             "{} was called on a deferred tensor, which has no bytes before the module is sharded. Call fsdp::shard or "
             "fsdp::materialize(module) first, or do this inside deferred_init.",
             name_of(operation));
  check_deferrable(*this, operation, arguments);
  FSDP_CHECK(!draws || !taken.writes_real,
             "deferred_init: {} writes random numbers into a tensor that is real, since it was made of numbers or "
             "outside. Make it inside, with torch::empty.",
             name_of(operation));
  torch::NoGradGuard no_grad;
  if (draws) expect_draws(self);
  RecordedOperator recorded = record_of(operation, arguments);
  if (gives_values(operation) || taken.writes_real) return perform_on_values(std::move(recorded), arguments, stack);
  MetaResults on_meta = call_on_meta(recorded);
  if (on_meta.problem.empty()) return perform(std::move(recorded), arguments, on_meta.results, stack);
  FSDP_CHECK(!taken.writes_deferred,
             "deferred_init: {} cannot be deferred, as its result depends on values, or it is wrong: {}. Compute it "
             "of tensors that are real, and copy_ the result.",
             name_of(operation), on_meta.problem);
  perform_on_values(std::move(recorded), arguments, stack);
}

void Recording::perform(RecordedOperator recorded, const Stack& arguments, const Stack& meta_results, Stack& stack) {
  const c10::OperatorHandle& operation = recorded.operation;
  Pairs pairs = pairs_of(recorded.arguments, arguments);
  for (const auto& [meta, tensor] : pairs) {
    FSDP_CHECK(meta.sizes() == tensor.sizes() && meta.strides() == tensor.strides(),
               "deferred_init: {} changes the size of a tensor, which cannot be deferred.", name_of(operation));
  }
  for (const c10::IValue& result : meta_results) {
    stack.push_back(with_tensors(result, [&](const torch::Tensor& meta) {
      return result_for(meta, pairs, device_of(operation, arguments), recorded);
    }));
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!writes(operation, i)) continue;
    for_each_tensor(arguments[i], [](const torch::Tensor& tensor) { tensor.unsafeGetTensorImpl()->bump_version(); });
  }
  if (!makes_empty(operation)) keep(std::move(recorded));
}

// An argument that was written, a view of one, or a deferred tensor of a storage of its own.
torch::Tensor Recording::result_for(const torch::Tensor& meta, Pairs& pairs, torch::Device device,
                                    RecordedOperator& recorded) {
  recorded.given.emplace_back();
  FSDP_CHECK(meta.is_meta() && meta.layout() == torch::kStrided,
             "deferred_init: {} makes a tensor that is not dense. Make it outside.", name_of(recorded.operation));
  for (const auto& [known, tensor] : pairs) {
    if (known.is_same(meta)) return tensor;
  }
  for (const auto& [known, tensor] : pairs) {
    DeferredStorage* storage = DeferredStorage::of(tensor);
    if (storage == nullptr || !known.is_alias_of(meta)) continue;
    torch::Tensor view = interpose::deferred_tensor(c10::intrusive_ptr<DeferredStorage>::reclaim_copy(storage), meta);
    view_made(view);
    return view;
  }
  const auto number = static_cast<int>(storages_.size());
  storages_.push_back({static_cast<int64_t>(meta.storage().nbytes()), device});
  torch::Tensor made = interpose::deferred_tensor(
      c10::make_intrusive<DeferredStorage>(number, meta.storage(), device, shared_from_this()), meta);
  pairs.emplace_back(meta, made);
  recorded.given.back() = place_of(made);
  recorded.writes.push_back(number);
  recorded.replaces.push_back(number);
  view_made(made);
  return made;
}

void Recording::keep(RecordedOperator recorded) {
  const auto& names = recorded.operation.schema().arguments();
  // The dtype that the program has chosen for new tensors, as long as it is that.
  const bool makes_one = recorded.given.size() == 1 && recorded.given[0].storage != kNoStorage;
  for (size_t i = 0; recorded.taken.empty() && makes_one && i < names.size(); ++i) {
    if (names[i].name() == "dtype" && recorded.arguments[i].isNone()) recorded.arguments[i] = recorded.given[0].dtype;
  }
  operators_.push_back(std::move(recorded));
}

// The results are real. The replay draws random numbers again.
void Recording::perform_on_values(RecordedOperator recorded, const Stack& arguments, Stack& stack) {
  const size_t before = stack.size();
  for (const c10::IValue& argument : arguments) {
    stack.push_back(with_tensors(argument, [&](const torch::Tensor& tensor) {
      return DeferredStorage::of(tensor) == nullptr ? tensor : value_of(tensor);
    }));
  }
  const KeptGenerator kept;
  if (recorded.draws) set_generator_state(replay_.state_before(operators_.size()));
  recorded.operation.callBoxed(stack);
  if (!recorded.draws) return;
  for (size_t i = before; i < stack.size(); ++i)
    for_each_tensor(stack[i], [&](const torch::Tensor&) { recorded.given.emplace_back(); });
  keep(std::move(recorded));
}

torch::Tensor Recording::state_after() {
  interpose::Unwatched ours;
  torch::NoGradGuard no_grad;
  const KeptGenerator kept;
  return replay_.state_before(operators_.size());
}

torch::Tensor Recording::value_of(const torch::Tensor& deferred, const std::optional<StorageBytes>& place) {
  interpose::Unwatched ours;
  torch::NoGradGuard no_grad;
  c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  const KeptGenerator kept;
  const TensorPlace lies = place_of(deferred);
  return replay_.tensor_at(lies, replay_.bytes_of(lies.storage, operators_.size(), place));
}

std::vector<torch::Tensor> Recording::held_tensors() const {
  std::vector<torch::Tensor> held;
  for (const WeakTensor& weak : made_) {
    auto tensor = weak.lock();
    if (!tensor.defined()) continue;
    held.emplace_back(std::move(tensor));
    if (DeferredStorage::of(held.back()) == nullptr) held.pop_back();  // it has other bytes since
  }
  return held;
}

}  // namespace fsdp::deferred
