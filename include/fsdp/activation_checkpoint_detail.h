// The parts of activation_checkpoint.h that users do not name.
#pragma once

#include <torch/types.h>

#include <array>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace fsdp {

struct ActivationCheckpointOptions;

namespace engine {
class BlockBudget;
}

namespace detail {

template <typename Value>
inline constexpr bool kIsReference = false;
template <typename Element>
inline constexpr bool kIsReference<c10::ArrayRef<Element>> = true;
template <typename Element>
inline constexpr bool kIsReference<std::initializer_list<Element>> = true;

template <typename Value>
inline constexpr bool kIsOptional = false;
template <typename Value>
inline constexpr bool kIsOptional<std::optional<Value>> = true;
template <typename Value>
inline constexpr bool kIsVector = false;
template <typename Value>
inline constexpr bool kIsVector<std::vector<Value>> = !std::is_same_v<Value, bool>;

// Calls `visit` with each tensor in the value, in order.
template <typename Value, typename Visit>
void visit_tensors(Value& value, const Visit& visit) {
  using Type = std::remove_const_t<Value>;
  if constexpr (std::is_same_v<Type, torch::Tensor>) {
    visit(value);
  } else if constexpr (kIsOptional<Type>) {
    if (value) visit_tensors(*value, visit);
  } else if constexpr (kIsVector<Type>) {
    for (auto& element : value) visit_tensors(element, visit);
  } else if constexpr (requires { std::tuple_size<Type>::value; }) {
    std::apply([&visit](auto&... elements) { (visit_tensors(elements, visit), ...); }, value);
  }
}

// Leaves undefined ones behind.
template <typename Value>
std::vector<torch::Tensor> take_tensors(Value& value) {
  std::vector<torch::Tensor> tensors;
  visit_tensors(value, [&](torch::Tensor& tensor) { tensors.push_back(std::exchange(tensor, torch::Tensor())); });
  return tensors;
}

template <typename Value>
void give_tensors(Value& value, const std::vector<torch::Tensor>& tensors) {
  size_t next = 0;
  visit_tensors(value, [&](torch::Tensor& tensor) { tensor = tensors[next++]; });
}

// Bytes of the elements of all tensors in the values.
template <typename... Values>
int64_t bytes_of(const Values&... values) {
  int64_t bytes = 0;
  const auto add = [&bytes](const torch::Tensor& tensor) {
    if (tensor.defined()) bytes += tensor.numel() * static_cast<int64_t>(tensor.element_size());
  };
  (visit_tensors(values, add), ...);
  return bytes;
}

// The first run of a checkpointed function, in the scope of which tensors that autograd saves are not kept.
class CheckpointedForward {
 public:
  using RunAgain = std::function<void(const std::vector<torch::Tensor>& inputs)>;

  // `budget`: of the block whose function it is; may be none.
  CheckpointedForward(const ActivationCheckpointOptions& options, const std::shared_ptr<engine::BlockBudget>& budget,
                      std::vector<torch::Tensor> inputs, RunAgain again);
  ~CheckpointedForward();
  // The tensor is in the function's result.
  void returned(const torch::Tensor& tensor) const;
  CheckpointedForward(const CheckpointedForward&) = delete;
  CheckpointedForward& operator=(const CheckpointedForward&) = delete;

 private:
  struct Scope;
  std::unique_ptr<Scope> scope_;
};

// activation_checkpoint, which says what this does, in gradient mode.
template <typename Function, typename... Inputs>
auto run_checkpointed(const ActivationCheckpointOptions& options, const std::shared_ptr<engine::BlockBudget>& budget,
                      Function& function, const Inputs&... inputs) {
  using Kept = std::tuple<std::decay_t<const Inputs&>...>;
  static_assert(!(kIsReference<std::decay_t<const Inputs&>> || ...),
                "an ArrayRef or an initializer_list does not own its elements, which the backward needs: pass a "
                "std::vector");
  Kept kept(inputs...);
  std::vector<torch::Tensor> tensors = take_tensors(kept);
  const CheckpointedForward forward(
      options, budget, std::move(tensors), [function, kept = std::move(kept)](const std::vector<torch::Tensor>& again) {
        Kept given = kept;
        give_tensors(given, again);
        Function copy = function;
        std::apply([&copy](const auto&... each) { static_cast<void>(std::invoke(copy, each...)); }, given);
      });
  auto result = std::invoke(function, inputs...);
  visit_tensors(result, [&forward](const torch::Tensor& tensor) { forward.returned(tensor); });
  return result;
}

template <typename Member>
struct Signature;
template <typename Result, typename Class, typename... Arguments>
struct Signature<Result (Class::*)(Arguments...)> {
  using Type = Result(Arguments...);
};
template <typename Result, typename Class, typename... Arguments>
struct Signature<Result (Class::*)(Arguments...) const> {
  using Type = Result(Arguments...);
};
// The signature of a member function, without its class.
template <typename Member>
using SignatureOf = typename Signature<Member>::Type;

template <typename Argument>
inline constexpr bool kIsWritable =
    std::is_lvalue_reference_v<Argument> && !std::is_const_v<std::remove_reference_t<Argument>>;

// A kept input as a function's argument of this type.
template <typename Argument>
decltype(auto) as_argument(const std::decay_t<Argument>& input) {
  if constexpr (std::is_rvalue_reference_v<Argument>) {
    return std::decay_t<Argument>(input);
  } else {
    return (input);
  }
}

}  // namespace detail
}  // namespace fsdp
