// Modules that have no memory until they are sharded: for models that are larger than a rank's memory.
#pragma once

#include <torch/nn/module.h>

#include <memory>

namespace fsdp {

namespace deferred {
class Recording;
}

// While it lives, operators of this thread that create tensors are recorded and not run. `deferred_init` opens one.
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

// Calls `make` and returns what it returns. Parameters and buffers of modules made in it have a device, a dtype and a
// shape, but no memory. Operators on them are recorded, and run when `shard` or `materialize` needs the bytes:
//
//   torch::manual_seed(1);
//   auto model = fsdp::deferred_init([] { return Net(/*layers=*/80); });
//   auto sharded = fsdp::shard(*model, world);   // one unit is made real, sharded and freed, then the next
//
// The bits are those of an ordinary construction. So is the state of LibTorch's default generator after `shard` or
// `materialize`. The numbers are drawn there: before it, seed the generator again (torch::manual_seed) as you like, but
// draw nothing. A draw is an error, because an ordinary construction draws first. A second deferred_init draws the
// first one's numbers, without keeping them. If a module is destroyed before it is made real, a draw is no error. Such
// numbers follow from the generator's state before the module, and are not those of an ordinary construction.
//
// Before `shard`, parameters can be frozen, initialised again (module->apply), written by operators, and replaced
// (set_data); operators that read them throw `Error`, and so does a forward. Inside `make` everything is allowed:
// values that the constructor reads (item(), a size that depends on data) are computed and then dropped. Numbers of the
// program (torch::tensor, from_blob) and sequences (arange, linspace, eye) are real at once, with everything computed
// only from them.
//
// `make` runs on this thread. Until modules are real, one thread at a time uses them. Throws `Error`, with the
// operator's name, for operators that cannot be deferred: random numbers from another generator than the CPU's default
// or into a real tensor, sparse tensors, and resize_. Reading bytes without an operator (data_ptr, accessor) is an
// error, too.
template <typename Make>
auto deferred_init(Make make) {
  const DeferredInitScope scope;
  return make();
}

// Makes a deferred module real, whole and on this rank, as an ordinary construction would. For modules that are not
// sharded. Tensors that are real already stay as they are. Not a collective.
void materialize(torch::nn::Module& module);

// True if the tensor has no memory yet.
bool is_deferred(const torch::Tensor& tensor);

}  // namespace fsdp
