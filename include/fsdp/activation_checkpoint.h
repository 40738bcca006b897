// Recomputation, also called activation checkpointing (Chen et al., 2016, "Training deep nets with sublinear memory
// cost", arXiv:1604.06174). A part of the model keeps only its inputs for the backward, and the backward first runs
// that part again. The price is one more forward of that part.
//
// Works with and without sharding. A sharded unit that is gathered for the second run stays gathered for the backward
// that follows, so ranks communicate no more than without. The bits do not change, dropout included.
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

// How a function is run again for its backward.
struct ActivationCheckpointOptions {
  KeptResults keep = KeptResults::None;  // results that the second run does not compute again
  // The second run stops, by an exception through the function, as soon as it has the last tensor that the backward
  // needs. The operators after it are not repeated. If false, a second run that saves more tensors than the first is an
  // error.
  bool stop_early = true;
  // Tensors that the function writes, such as a BatchNorm's statistics. The second run restores their values, as if the
  // forward had run once. Called in the backward. Recomputed passes the buffers of its module.
  std::function<std::vector<torch::Tensor>()> buffers = {};
  // With KeptResults::Products: replaces the list of operators whose results are kept. Called with the operator's name
  // below autograd, "aten::mm" or "aten::gelu", once per call in both runs. It must return the same in both. Always
  // computed again: operators that draw random numbers, views, and operators that write to an argument. A write
  // directly after a kept result is the exception.
  std::function<bool(std::string_view name)> keeps = {};
};

// Returns function(inputs...), of any type; gradients flow through tensors in it, and through a vector or tuple of
// tensors. The first run is an ordinary one with gradient mode on, but the tensors that autograd saves in it are not
// kept, except parameters. Inputs and the function are copied (tensors share their elements). Each backward calls the
// function again, on the backward's thread and with gradient mode on. With gradient mode off, this is
// function(inputs...) and nothing else.
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
// Throws Error, in the backward, if an input was changed in place since the forward, or if the second run saved other
// tensors than the first (number, sizes or dtypes). Throws c10::Error if the function changes a tensor in place that
// one of its operators saved.
template <typename Function, typename... Inputs>
requires std::is_invocable_v<Function&, const Inputs&...>
auto activation_checkpoint(const ActivationCheckpointOptions& options, Function function, const Inputs&... inputs) {
  if (!torch::GradMode::is_enabled() || options.keep == KeptResults::All) return std::invoke(function, inputs...);
  return detail::run_checkpointed(options, nullptr, function, inputs...);
}

// The same, with the default options.
template <typename Function, typename... Inputs>
requires std::is_invocable_v<Function&, const Inputs&...>
auto activation_checkpoint(Function function, const Inputs&... inputs) {
  return activation_checkpoint(ActivationCheckpointOptions(), std::move(function), inputs...);
}

// The part of every Recomputed that does not depend on its module. A program that iterates over modules can cast to it.
class RecomputedModule {
 public:
  virtual ~RecomputedModule() = default;

  // Sets how the block is run again, from the next forward on. Throws Error for a `keep` other than None if
  // Options::activation_memory is set.
  void set_recomputation(ActivationCheckpointOptions options);
  // The options that were set last.
  const ActivationCheckpointOptions& recomputation() const { return options_; }

  // For the rest of the library. With a budget, the budget decides from now on; with null, the options do.
  void set_budget(std::shared_ptr<engine::BlockBudget> budget) { budget_ = std::move(budget); }
  // For the rest of the library: the budget, or null.
  const std::shared_ptr<engine::BlockBudget>& budget() const { return budget_; }

 protected:
  // The options of a call whose inputs have this many bytes. Without gradient mode: All.
  ActivationCheckpointOptions options_of_call(int64_t input_bytes) const;

 private:
  ActivationCheckpointOptions options_;
  std::shared_ptr<engine::BlockBudget> budget_;
};

// The module that Recomputed holds: an Impl, so units_of<Impl>() finds it, with Impl's constructors, parameters and
// names. A call through a pointer to Impl is Impl's own forward, unless that is virtual.
template <typename Impl, typename Signature = detail::SignatureOf<decltype(&Impl::forward)>>
class RecomputedImpl;

// The class for an Impl whose forward has this signature.
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
    auto run = [this, owner = this->weak_from_this().lock()](const std::decay_t<Arguments>&... inputs) -> Result {
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
