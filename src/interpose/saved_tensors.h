// The tensors that autograd saves for a backward, seen and kept by somebody else: who counts them, makes them again or
// has them elsewhere. C++ has no torch.autograd.graph.saved_tensors_hooks; this is it, with its rules.
//
// Autograd's engine is asked for hooks each time that a node saves a tensor. Ours (one per process, installed by the
// first scope or by `watch_saved_tensors`, before the first backward) answers with those of the innermost scope that is
// open on the calling thread, or, where none is, with those of the thread's watcher. A process with Python has an
// engine of its own, which asks Python's stack of hooks: there `watch_saved_tensors` returns false, and a scope throws
// (a Python package would push the same keepers there).
//
// Threads: scopes are of the thread that opens them. Hooks are packed on the thread that saves; they are unpacked and
// destroyed on any thread, the backward's mostly.
#pragma once

#include <torch/csrc/autograd/saved_variable_hooks.h>
#include <torch/types.h>

#include <memory>

namespace fsdp::interpose {

// Who keeps tensors in autograd's place.
class SavedTensorKeeper {
 public:
  virtual ~SavedTensorKeeper() = default;
  // For the tensor that a node is about to save. Autograd owns the result, which lives as long as the tensor would be
  // kept: until the node's backward ran (without retain_graph) or the graph is dropped. `call_pack_hook` follows, once,
  // and `call_unpack_hook` any number of times. Null: autograd keeps the tensor itself.
  virtual std::unique_ptr<torch::autograd::SavedVariableHooks> hooks() = 0;
};

// A tensor kept as autograd itself does: sharing the storage, without the graph behind it (a node that kept its own
// output with its graph would never be freed).
class KeptTensor {
 public:
  KeptTensor() = default;
  explicit KeptTensor(const torch::Tensor& tensor)
      : tensor_(tensor.tensor_data()), version_(static_cast<uint32_t>(tensor._version())) {}
  // Throws c10::Error where the tensor was modified in place since: autograd leaves this check to hooks.
  torch::Tensor get() const {
    if (static_cast<uint32_t>(tensor_._version()) != version_) refuse_modified();
    return tensor_;
  }
  bool defined() const { return tensor_.defined(); }

 private:
  [[noreturn]] void refuse_modified() const;

  torch::Tensor tensor_;  // with the original's version counter
  uint32_t version_ = 0;
};

// Hooks for all tensors but those of sharded units (parameters, their views, pieces), which are kept as they are: their
// bytes come and go, and are nobody's activations.
class ActivationHooks : public torch::autograd::SavedVariableHooks {
 public:
  void call_pack_hook(const torch::Tensor& tensor) final;
  torch::Tensor call_unpack_hook() final { return parameter_.defined() ? parameter_.get() : unpack(); }

 protected:
  // Without gradient mode. The tensor may still lead to its graph; what is kept of it must not (KeptTensor).
  virtual void pack(const torch::Tensor& activation) = 0;
  // The same sizes, dtype and values; autograd gives it its place in the graph. Strides may differ.
  virtual torch::Tensor unpack() = 0;

 private:
  KeptTensor parameter_;
};

// While it lives, `keeper` has the tensors that nodes made on this thread save. Scopes nest, and only the innermost is
// asked; with a null keeper autograd keeps the tensors, as if there were no scope nor watcher. The keeper outlives the
// scope, and hooks may outlive both. Ended on the thread and in the order of its opening.
//
// Throws Error where the engine is not ours.
class SavedTensorsScope {
 public:
  explicit SavedTensorsScope(SavedTensorKeeper* keeper);
  ~SavedTensorsScope();
  SavedTensorsScope(const SavedTensorsScope&) = delete;
  SavedTensorsScope& operator=(const SavedTensorsScope&) = delete;

 private:
  SavedTensorKeeper* keeper_;
  const SavedTensorsScope* outer_;
  friend class SavedTensorEngine;
};

// Has `keeper` asked outside of all scopes of this thread, instead of the watcher before; null: nobody. Returns whether
// the engine is ours. The keeper lives until another takes its place, or the thread ends.
bool watch_saved_tensors(SavedTensorKeeper* keeper);

// Whom a node that this thread makes now would ask; null: nobody.
SavedTensorKeeper* saved_tensor_keeper();

}  // namespace fsdp::interpose
