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
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "fsdp/activation_checkpoint_detail.h"
#include "fsdp/activation_memory.h"

namespace fsdp {

struct ActivationCheckpointOptions {
  KeptResults keep = KeptResults::None;
  // Whether the second run ends, by an exception through the function, once the last tensor that the backward needs is
  // there: the operators behind it are not repeated. Without it a second run that saves more than the first is found.
  bool stop_early = true;
  // Tensors that the function writes, such as a BatchNorm's statistics: they have the values from before the second run
  // after it, too, as after one forward. Called in the backward. Recomputed gives those of its module.
  std::function<std::vector<torch::Tensor>()> buffers = {};
  // With KeptResults::Products: the operators whose results are kept, in place of those that it names. Asked with the
  // name that an operator has below autograd, "aten::mm", "aten::gelu", once for each call in both runs, and has to
  // answer the same. Computed again whatever it answers: operators that draw random numbers, views, and those that
  // write to an argument, but for one that follows at once on what is kept.
  std::function<bool(std::string_view name)> keeps = {};
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
  if (!torch::GradMode::is_enabled() || options.keep == KeptResults::All) return std::invoke(function, inputs...);
  return detail::run_checkpointed(options, nullptr, std::move(function), inputs...);
}

template <typename Function, typename... Inputs>
requires std::is_invocable_v<Function&, const Inputs&...>
auto activation_checkpoint(Function function, const Inputs&... inputs) {
  return activation_checkpoint(ActivationCheckpointOptions(), std::move(function), inputs...);
}

// The part of every Recomputed that does not depend on its module: what a program finds that goes through modules.
class RecomputedModule {
 public:
  virtual ~RecomputedModule() = default;

  // How it is run again; what is set holds from the next forward on. Throws Error for a `keep` other than None where
  // Options::activation_memory decides what is kept.
  void set_recomputation(ActivationCheckpointOptions options);
  const ActivationCheckpointOptions& recomputation() const { return options_; }

  // For the rest of the library: a budget decides from now on; none: the options do.
  void set_budget(std::shared_ptr<engine::BlockBudget> budget) { budget_ = std::move(budget); }
  const std::shared_ptr<engine::BlockBudget>& budget() const { return budget_; }

 protected:
  // Of a call whose inputs have so many bytes; without gradient mode it is to keep All.
  ActivationCheckpointOptions options_of_call(int64_t input_bytes) const;

 private:
  ActivationCheckpointOptions options_;
  std::shared_ptr<engine::BlockBudget> budget_;
};

// The module that Recomputed holds: an Impl, so units_of<Impl>() finds it, with Impl's constructors, parameters and
// names. A call through a pointer to Impl is Impl's own forward, unless that is virtual.
template <typename Impl, typename Signature = detail::SignatureOf<decltype(&Impl::forward)>>
class RecomputedImpl;

template <typename Impl, typename Result, typename... Arguments>
class RecomputedImpl<Impl, Result(Arguments...)> : public Impl, public RecomputedModule {
 public:
  using Impl::Impl;

  // Impl::forward, checkpointed. It takes all arguments: default values are not inherited.
  Result forward(Arguments... arguments) {
    static_assert(!(detail::kIsWritable<Arguments> || ...), "forward takes an argument that it may write");
    ActivationCheckpointOptions options = RecomputedModule::options_of_call(detail::bytes_of(arguments...));
    if (options.keep == KeptResults::All) return Impl::forward(std::forward<Arguments>(arguments)...);
    if (!options.buffers) options.buffers = [this] { return this->buffers(); };
    const auto run = [this, owner = this->weak_from_this().lock()](const std::decay_t<Arguments>&... inputs) -> Result {
      return this->Impl::forward(detail::as_argument<Arguments>(inputs)...);
    };
    return detail::run_checkpointed(options, RecomputedModule::budget(), run, arguments...);
  }
};

// A module holder: Recomputed<BlockImpl> block(...) is a Block whose forward is checkpointed, in Sequential and
// AnyModule, too. Out of a ModuleList it comes by block->as<Recomputed<BlockImpl>>().
//
//   block->set_recomputation({.keep = fsdp::KeptResults::Products});
//
// With Options::activation_memory the sharded model decides what each of its blocks keeps.
//
// BlockImpl::forward is one function, neither overloaded nor a template.
template <typename Impl>
class Recomputed : public torch::nn::ModuleHolder<RecomputedImpl<Impl>> {
 public:
  using torch::nn::ModuleHolder<RecomputedImpl<Impl>>::ModuleHolder;
};

}  // namespace fsdp
