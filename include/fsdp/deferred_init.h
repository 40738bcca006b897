// Modules that have no memory until they are sharded: for models that are larger than a rank's memory.
#pragma once

#include <torch/nn/module.h>

#include <memory>

namespace fsdp {

namespace deferred {
class Recording;
}

// While it lives, operators of this thread that would make tensors are recorded instead. `deferred_init` opens one.
class DeferredInitScope {
 public:
  DeferredInitScope();
  ~DeferredInitScope();
  DeferredInitScope(const DeferredInitScope&) = delete;
  DeferredInitScope& operator=(const DeferredInitScope&) = delete;

 private:
  class Open;
  std::unique_ptr<Open> open_;
};

// Calls `make` and returns what it returns. The parameters and buffers of modules that it makes have their device,
// dtype and shape, and no memory; what was done to them is recorded, and done when their bytes are wanted:
//
//   torch::manual_seed(1);
//   auto model = fsdp::deferred_init([] { return Net(/*layers=*/80); });
//   auto sharded = fsdp::shard(*model, world);   // one unit is made real, sharded and freed, then the next
//
// The bits are those of an ordinary construction, and so is the state of LibTorch's default generator, from the end of
// `shard` or `materialize` on. The numbers are drawn then: until then, seed the generator again (torch::manual_seed) as
// you like, but draw nothing from it; that would be an error, as an ordinary construction draws first. Another
// deferred_init draws the numbers of the one before it, without keeping them. A module may be destroyed
// before it is made real: numbers that are drawn then are no error. They follow from the generator's state before it,
// but are not those of an ordinary construction.
//
// Before `shard`, parameters can be frozen, initialised again (module->apply), written by operators, and replaced
// (set_data); operators that read them are an `Error`, and so is a forward. Inside `make` all is allowed: values that
// the constructor asks for (item(), a size that depends on data) are computed, and forgotten again. Numbers that the
// program has (torch::tensor, from_blob) and sequences (arange, linspace, eye) are real at once, with what is computed
// from them alone.
//
// `make` runs on this thread; modules are used by one thread at a time until they are real. Throws `Error`, naming the
// operator, for what cannot be deferred: random numbers from another generator than the default one of the CPU, or
// written into a tensor that is real; sparse tensors; resize_. Bytes that are read past operators (data_ptr, accessor)
// are an error that says so.
template <typename Make>
auto deferred_init(Make make) {
  const DeferredInitScope scope;
  return make();
}

// Makes a module real that was made in a deferred_init: all of it, on this rank, as an ordinary construction leaves it.
// For modules that are not sharded. What is real already stays as it is. No collective.
void materialize(torch::nn::Module& module);

// Whether the tensor has no memory yet.
bool is_deferred(const torch::Tensor& tensor);

}  // namespace fsdp
