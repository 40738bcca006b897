// The order in which operators first take some tensors.
#pragma once

#include <ATen/record_function.h>
#include <torch/types.h>

#include <cstddef>
#include <unordered_map>
#include <vector>

namespace fsdp::interpose {

// Records from its construction to its end, on the thread that made it; only one at a time there. Works on plain
// tensors: nothing is sharded yet.
class UseRecorder {
 public:
  // Throws Error where another one records on this thread.
  explicit UseRecorder(const std::vector<torch::Tensor>& tensors);
  ~UseRecorder();
  UseRecorder(const UseRecorder&) = delete;
  UseRecorder& operator=(const UseRecorder&) = delete;

  // Indices of those that were used, the first one first.
  const std::vector<size_t>& order() const { return order_; }

 private:
  void note(const c10::IValue& value);

  std::unordered_map<const at::TensorImpl*, size_t> unused_;
  std::vector<size_t> order_;
  at::CallbackHandle callback_;
};

}  // namespace fsdp::interpose
