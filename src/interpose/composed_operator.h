// An operator on sharded parameters that is made of several of LibTorch's: their units are there for all of them, by
// one touch. An object lives on the stack of the function that calls them.
#pragma once

#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/types.h>

#include <initializer_list>

#include "interpose/touches.h"

namespace fsdp::interpose {

class ComposedOperator {
 public:
  // `name` outlives it. Tensors that are no parameters may be among the arguments, and all may be. Made where the
  // gradient mode is the caller's, so outside of a torch::autograd::Function's forward. Throws as Pins does. Autocast
  // does not see the operators inside, which run in the arguments' dtype.
  ComposedOperator(const char* name, std::initializer_list<const torch::Tensor*> arguments)
      : touches_(touches_of(arguments)), pins_(touches_, name) {}

 private:
  static Touches touches_of(std::initializer_list<const torch::Tensor*> arguments) {
    Touches touches;
    for (const torch::Tensor* argument : arguments) touches.add(*argument, /*written=*/false);
    return touches;
  }

  Touches touches_;
  Pins pins_;
  c10::impl::ExcludeDispatchKeyGuard no_autocast_{c10::autocast_dispatch_keyset};
};

}  // namespace fsdp::interpose
