// Recomputation, also called activation checkpointing: a part of the model keeps its inputs for the backward, and not
// what lies between them and its result; the backward runs that part once more first (Chen et al., 2016, "Training deep
// nets with sublinear memory cost", arXiv:1604.06174). One forward more of that part is the price.
//
// Needs no sharding, and knows nothing of it: a sharded unit that is gathered for the second run stays for the backward
// that follows it, so nothing more is communicated. Bits are those without it, dropout included.
#pragma once

#include <torch/nn/pimpl.h>
#include <torch/types.h>

#include <functional>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "fsdp/activation_checkpoint_detail.h"

namespace fsdp {

// Which results of operators are kept in the forward, so that the second run does not compute them again.
enum class KeptResults {
  None,
  // Those of matrix products, convolutions and attention without dropout, which take nearly all the time, and in a
  // GPT-2 block 10 of the 16 tensors of the width that a backward needs. Norms, activation functions, dropout and other
  // element-wise work are repeated. Results that the function returns are not kept, nor those that it changes in place
  // later than by the operator that follows.
  Products,
};

struct ActivationCheckpointOptions {
  KeptResults keep = KeptResults::None;
  // Whether the second run ends, by an exception through the function, once the last tensor that the backward needs is
  // there: the operators behind it are not repeated. Without it a second run that saves more than the first is found.
  bool stop_early = true;
  // Tensors that the function writes, such as a BatchNorm's statistics: they have the values from before the second run
  // after it, too, as after one forward. Called in the backward. Recomputed gives those of its module.
  std::function<std::vector<torch::Tensor>()> buffers = {};
};

// function(inputs...), a tensor, a vector or a tuple with tensors, or anything else; differentiated as if it had been
// called so. The first run is an ordinary one with gradient mode on, and none of the tensors that autograd saves in it
// is kept, but for parameters. Inputs are copied (tensors share their elements) and the function is, too: it is called
// again in each backward that comes here, on the backward's thread, with gradient mode on. With gradient mode off this
// is function(inputs...) and nothing else.
//
// - Tensors among the inputs may be undefined, and may lie in std::optional, std::vector, std::pair, std::tuple and
//   std::array; other values are passed on. Tensors that the function captures instead are found in place, unchecked,
//   and inside another checkpoint keep memory.
// - The second run has the first one's random numbers (the default generators of the CPU and of the devices of the
//   inputs), autocast and modes; afterwards they are what they were. Nothing else may have changed that the function
//   depends on, a module's training mode for example.
// - Calls nest. A graph may be retained and run backward again, and gradients may have graphs (create_graph): each
//   backward runs the function once more.
// - A function that throws ends the backward with its exception. It lets exceptions pass that it does not know.
//
// Throws Error, in the backward, where an input was changed in place since the forward, and where the second run saved
// other tensors than the first (their number, sizes or dtypes). Throws c10::Error where the function changes in place
// what an operator in it had saved.
template <typename Function, typename... Inputs>
requires std::is_invocable_v<Function&, const Inputs&...>
auto activation_checkpoint(const ActivationCheckpointOptions& options, Function function, const Inputs&... inputs) {
  using Kept = std::tuple<std::decay_t<const Inputs&>...>;
  static_assert(!(detail::kIsReference<std::decay_t<const Inputs&>> || ...),
                "an ArrayRef or an initializer_list does not own its elements, which the backward needs: pass a "
                "std::vector");
  if (!torch::GradMode::is_enabled()) return std::invoke(function, inputs...);
  Kept kept(inputs...);
  std::vector<torch::Tensor> tensors = detail::take_tensors(kept);
  const detail::CheckpointedForward forward(
      options, std::move(tensors), [function, kept = std::move(kept)](const std::vector<torch::Tensor>& again) {
        Kept given = kept;
        detail::give_tensors(given, again);
        Function copy = function;
        std::apply([&copy](const auto&... each) { static_cast<void>(std::invoke(copy, each...)); }, given);
      });
  auto result = std::invoke(function, inputs...);
  detail::visit_tensors(result, [&forward](const torch::Tensor& tensor) { forward.returned(tensor); });
  return result;
}

template <typename Function, typename... Inputs>
requires std::is_invocable_v<Function&, const Inputs&...>
auto activation_checkpoint(Function function, const Inputs&... inputs) {
  return activation_checkpoint(ActivationCheckpointOptions(), std::move(function), inputs...);
}

// The module that Recomputed holds: an Impl, so units_of<Impl>() finds it, with Impl's constructors, parameters and
// names. A call through a pointer to Impl is Impl's own forward, unless that is virtual.
template <typename Impl, typename Signature = detail::SignatureOf<decltype(&Impl::forward)>>
class RecomputedImpl;

template <typename Impl, typename Result, typename... Arguments>
class RecomputedImpl<Impl, Result(Arguments...)> : public Impl {
 public:
  using Impl::Impl;

  // Impl::forward, checkpointed. It takes all arguments: default values are not inherited.
  Result forward(Arguments... arguments) {
    static_assert(!(detail::kIsWritable<Arguments> || ...), "forward takes an argument that it may write");
    ActivationCheckpointOptions options = options_;
    if (!options.buffers) options.buffers = [this] { return this->buffers(); };
    const auto run = [this, owner = this->weak_from_this().lock()](const std::decay_t<Arguments>&... inputs) -> Result {
      return this->Impl::forward(detail::as_argument<Arguments>(inputs)...);
    };
    return activation_checkpoint(options, run, arguments...);
  }

  // How it is run again; what is set holds from the next forward on.
  void set_recomputation(ActivationCheckpointOptions options) { options_ = std::move(options); }

 private:
  ActivationCheckpointOptions options_;
};

// A module holder: Recomputed<BlockImpl> block(...) is a Block whose forward is checkpointed, in Sequential and
// AnyModule, too. Out of a ModuleList it comes by block->as<Recomputed<BlockImpl>>().
//
//   block->set_recomputation({.keep = fsdp::KeptResults::Products});
//
// BlockImpl::forward is one function, neither overloaded nor a template.
template <typename Impl>
class Recomputed : public torch::nn::ModuleHolder<RecomputedImpl<Impl>> {
 public:
  using torch::nn::ModuleHolder<RecomputedImpl<Impl>>::ModuleHolder;
};

}  // namespace fsdp
