#include "interpose/frequent_operators.h"

#include <ATen/core/boxing/impl/boxing.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <array>
#include <utility>
// expected by the operators' headers
#include <ATen/ops/addmm_ops.h>
#include <ATen/ops/detach_ops.h>
#include <ATen/ops/embedding_ops.h>
#include <ATen/ops/layer_norm_ops.h>
#include <ATen/ops/linear_ops.h>
#include <ATen/ops/matmul_ops.h>
#include <ATen/ops/mm_ops.h>
#include <ATen/ops/native_layer_norm_backward_ops.h>
#include <ATen/ops/t_ops.h>
#include <ATen/ops/transpose_ops.h>
#include <ATen/ops/view_ops.h>

#include "interpose/activations.h"
#include "interpose/linear.h"
#include "interpose/touches.h"

namespace fsdp::interpose {

namespace {

void add(Touches& touches, const at::Tensor& tensor) { touches.add(tensor, false); }
void add(Touches& touches, const std::optional<at::Tensor>& tensor) {
  if (tensor) touches.add(*tensor, false);
}
template <typename Other>
void add(Touches&, const Other&) {}

// One argument, as it is passed on.
const at::Tensor& cast(const at::Tensor& tensor, const UnitStorage& unit, at::Tensor& kept) {
  kept = cast_argument(tensor, unit.dtype());
  return kept;
}
std::optional<at::Tensor> cast(const std::optional<at::Tensor>& tensor, const UnitStorage& unit, at::Tensor&) {
  return tensor ? std::optional(cast_argument(*tensor, unit.dtype())) : std::nullopt;
}
template <typename Other>
Other&& cast(Other&& other, const UnitStorage&, at::Tensor&) {
  return std::forward<Other>(other);
}

template <typename Operation, typename Schema = typename Operation::schema>
struct Kernel;

// True if a linear layer may call it with the transpose of its weight (linear.h).
template <typename Operation>
constexpr bool kMultiplies = std::is_same_v<Operation, at::_ops::addmm> ||
                             std::is_same_v<Operation, at::_ops::matmul> || std::is_same_v<Operation, at::_ops::mm>;

// For operators that write none of their arguments.
template <typename Operation, typename Result, typename... Arguments>
struct Kernel<Operation, Result(Arguments...)> {
  static Result run(c10::DispatchKeySet keys, Arguments... arguments) {
    Touches touches;
    (add(touches, arguments), ...);
    if (DeferredStorage* deferred = touches.deferred()) [[unlikely]] {
      return run_recorded(*deferred->recorder(), keys, arguments...);
    }
    Pins pins(touches, Operation::name);
    if (!touches.empty() && touches.first().casts_activations() && kEqualDtypes) [[unlikely]] {
      return run_cast(keys, touches.first(), std::index_sequence_for<Arguments...>(), arguments...);
    }
    return run_below(keys, std::forward<Arguments>(arguments)...);
  }

 private:
  inline static const bool kEqualDtypes = argument_dtypes(Operation::name) == ArgumentDtypes::OfParameter;

  static Result run_recorded(OperatorRecorder& recorder, c10::DispatchKeySet keys, Arguments... arguments) {
    static const c10::OperatorHandle operation =
        c10::Dispatcher::singleton().findSchemaOrThrow(Operation::name, Operation::overload_name);
    torch::jit::Stack stack = c10::impl::boxArgs<Arguments...>(std::forward<Arguments>(arguments)...);
    recorder.operator_called(operation, keys_below(keys), stack);
    return c10::impl::PopResult<Result>::call(stack);
  }

  static Result run_below(c10::DispatchKeySet keys, Arguments... arguments) {
    if constexpr (std::is_same_v<Operation, at::_ops::linear>) {
      if (linear_goes_in_place(arguments...)) return linear_in_place(arguments...);
    } else if constexpr (kMultiplies<Operation>) {
      if (product_goes_in_place(arguments...)) return product_in_place(arguments...);
    }
    return Operation::redispatch(keys_below(keys), std::forward<Arguments>(arguments)...);
  }

  template <size_t... indices>
  static Result run_cast(c10::DispatchKeySet keys, const UnitStorage& unit, std::index_sequence<indices...>,
                         Arguments... arguments) {
    std::array<at::Tensor, sizeof...(Arguments)> kept;
    return run_below(keys, cast(arguments, unit, kept[indices])...);
  }
};

template <typename Operation>
void implement(torch::Library& library) {
  library.impl(Operation::name, TORCH_FN(Kernel<Operation>::run));
}

template <typename Operation, typename Schema = typename Operation::schema>
struct View;

// For operators that make a view of their first argument.
template <typename Operation, typename... Arguments>
struct View<Operation, at::Tensor(const at::Tensor&, Arguments...)> {
  static at::Tensor run(c10::DispatchKeySet keys, const at::Tensor& tensor, Arguments... arguments) {
    announce_view(tensor);
    at::Tensor view = Operation::redispatch(keys_below(keys), tensor, std::forward<Arguments>(arguments)...);
    note_view(view);
    return view;
  }
};

template <typename Operation>
void implement_view(torch::Library& library, const char* name) {
  library.impl(name, TORCH_FN(View<Operation>::run));
}

}  // namespace

void ensure_frequent_operators() {}

}  // namespace fsdp::interpose

TORCH_LIBRARY_IMPL(aten, DeferredInit, library) {
  using namespace fsdp::interpose;
  implement<at::_ops::addmm>(library);
  implement<at::_ops::embedding>(library);
  implement<at::_ops::layer_norm>(library);
  implement<at::_ops::linear>(library);
  implement<at::_ops::matmul>(library);
  implement<at::_ops::mm>(library);
  implement<at::_ops::native_layer_norm_backward>(library);
  implement_view<at::_ops::detach>(library, "detach");
  implement_view<at::_ops::t>(library, "t");
  implement_view<at::_ops::transpose_int>(library, "transpose.int");
  implement_view<at::_ops::view>(library, "view");
}
