// The tensors that autograd saves for a backward: a keeper counts them, makes them again or stores them elsewhere. C++
// has no torch.autograd.graph.saved_tensors_hooks; this is it, with its rules.
//
// LibTorch asks autograd's engine for hooks each time that a node saves a tensor. Ours (hooks_engine.h) answers with
// those of the innermost scope that is open on the calling thread. Where none is open, it answers with hooks that
// Python has pushed, in a process with Python, and else with those of the thread's watcher.
//
// Threads: scopes are of the thread that opens them. Hooks are packed on the thread that saves; they are unpacked and
// destroyed on any thread, the backward's mostly.
#pragma once

#include <torch/csrc/autograd/saved_variable_hooks.h>
#include <torch/types.h>

#include <memory>

namespace fsdp::interpose {

using SavedTensorHooks = std::unique_ptr<torch::autograd::SavedVariableHooks>;

// Who keeps tensors in autograd's place.
class SavedTensorKeeper {
 public:
  virtual ~SavedTensorKeeper() = default;
  // For the tensor that a node is about to save. Autograd owns the result, which lives as long as the tensor would be
  // kept: until the node's backward ran (without retain_graph) or the graph is dropped. `call_pack_hook` follows, once,
  // and `call_unpack_hook` any number of times. Null: autograd keeps the tensor itself.
  virtual SavedTensorHooks hooks() = 0;
  // For a tensor that another keeper holds in memory, whatever becomes of these.
  virtual SavedTensorHooks hooks_in_memory() { return hooks(); }
};

// A tensor kept as autograd itself does: sharing the storage, without the graph behind it (a node that kept its own
// output with its graph would never be freed).
class KeptTensor {
 public:
  KeptTensor() = default;
  // A leaf has no graph behind it, and stays the tensor that it is.
  explicit KeptTensor(const torch::Tensor& tensor)
      : tensor_(tensor.is_leaf() ? tensor : tensor.tensor_data()), version_(tensor._version()) {}
  // Throws c10::Error where the tensor was modified in place since: autograd leaves this check to hooks.
  torch::Tensor get() const {
    if (tensor_._version() != version_) refuse_modified();
    return tensor_;
  }
  bool defined() const { return tensor_.defined(); }

 private:
  [[noreturn]] void refuse_modified() const;

  torch::Tensor tensor_;  // with the original's version counter
  int64_t version_ = 0;
};

// One kept so, in the watcher's sight.
class WatchedTensor {
 public:
  WatchedTensor() = default;
  explicit WatchedTensor(const torch::Tensor& tensor);
  // As KeptTensor::get.
  torch::Tensor get() const { return watched_ ? watched_->call_unpack_hook() : plain_.get(); }
  bool defined() const { return watched_ != nullptr || plain_.defined(); }

 private:
  SavedTensorHooks watched_;
  KeptTensor plain_;
};

// Hooks for all tensors except those of sharded units (parameters, their views, pieces). These are kept as they are:
// their bytes come and go, and are not activations.
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
class SavedTensorsScope {
 public:
  explicit SavedTensorsScope(SavedTensorKeeper* keeper);
  ~SavedTensorsScope();
  SavedTensorsScope(const SavedTensorsScope&) = delete;
  SavedTensorsScope& operator=(const SavedTensorsScope&) = delete;

 private:
  SavedTensorKeeper* keeper_;
  const SavedTensorsScope* outer_;
  friend SavedTensorKeeper* saved_tensor_keeper();
};

// Has `keeper` asked outside of all scopes of this thread, instead of the watcher before; null: none is. Cheap where
// the keeper is the watcher already.
void watch_saved_tensors(const std::shared_ptr<SavedTensorKeeper>& keeper);
// The hooks of a node that this thread makes now; null if there are none. A keeper that holds tensors itself asks whom
// it hides for hooks, packs and unpacks by these, and destroys them when it lets a tensor go: then it is counted as
// autograd's.
SavedTensorKeeper* saved_tensor_keeper();
// Installs the engine, where it is not the default. The watcher is asked from then on.
void install_saved_tensor_engine();

}  // namespace fsdp::interpose
