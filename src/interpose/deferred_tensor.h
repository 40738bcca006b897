// Tensors of a module whose construction is deferred: of their real device, dtype and shape, with no bytes.
//
// Such a tensor carries our key, over a storage that knows the number it has in the record of the construction. Who
// keeps that record is called in place of every operator that takes the tensor or a view of it; and, while a
// RecordedScope lives, in place of every operator that its thread calls. Access to the bytes outside of an operator is
// refused with a message.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/types.h>

#include <memory>
#include <string>

#include "interpose/key.h"

namespace fsdp::interpose {

class OperatorRecorder {
 public:
  virtual ~OperatorRecorder() = default;
  // Performs the operator: takes its arguments from the stack and puts its results there. `below` are the keys to
  // redispatch by. Inner operators come here too, unless an Unwatched lives.
  virtual void operator_called(const c10::OperatorHandle& operation, c10::DispatchKeySet below,
                               torch::jit::Stack& stack) = 0;
  // An operator that reads no bytes has made this view of a deferred tensor.
  virtual void view_made(const at::Tensor& view) = 0;
};

class DeferredStorage final : public c10::StorageImpl {
 public:
  // `shape` is a storage of the meta device, as large.
  DeferredStorage(int number, c10::Storage shape, torch::Device device, std::shared_ptr<OperatorRecorder> recorder);

  int number() const { return number_; }
  const c10::Storage& shape() const { return shape_; }
  const std::shared_ptr<OperatorRecorder>& recorder() const { return recorder_; }
  // A parameter over this storage has left it, by this name: it was sharded. Other tensors over it have no use any
  // more.
  void leave(const std::string& parameter);
  const std::string& left_by() const { return left_by_; }  // empty: by none

  // The storage behind a tensor; null for any other tensor.
  static DeferredStorage* of(const at::TensorBase& tensor);

 private:
  int number_;
  c10::Storage shape_;
  std::shared_ptr<OperatorRecorder> recorder_;
  std::string left_by_;
};

// The error and its remedy for a tensor over a storage that a parameter has left.
std::string left_behind(const std::string& parameter);

// A tensor over the storage, with the dtype, sizes, strides and offset of `like`.
at::Tensor deferred_tensor(const c10::intrusive_ptr<DeferredStorage>& storage, const at::Tensor& like);
// Its counterpart on the meta device, over the storage's shape. The tensor is a deferred one.
at::Tensor meta_of(const at::Tensor& deferred);

// While it lives, the operators that this thread calls are the recorder's.
class RecordedScope {
 public:
  explicit RecordedScope(OperatorRecorder& recorder);
  ~RecordedScope();
  RecordedScope(const RecordedScope&) = delete;
  RecordedScope& operator=(const RecordedScope&) = delete;

  static OperatorRecorder* current() { return current_; }  // null outside of a scope

 private:
  inline static thread_local OperatorRecorder* current_ = nullptr;

  OperatorRecorder* around_;
  c10::impl::IncludeDispatchKeyGuard seen_{kKey};
};

// Tells the scope's recorder of a view, if there is one.
inline void note_view(const at::Tensor& view) {
  if (OperatorRecorder* recorder = RecordedScope::current()) [[unlikely]] {
    if (DeferredStorage::of(view) != nullptr) recorder->view_made(view);
  }
}

// True if LibTorch makes the operator of others, whatever the device.
bool is_composite(const c10::OperatorHandle& operation);
// True if this thread makes a tensor of numbers that the program has (torch::tensor), which LibTorch writes through the
// tensor's pointer.
bool makes_tensor_of_numbers();

}  // namespace fsdp::interpose
