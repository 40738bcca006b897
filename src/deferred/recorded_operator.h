// The record of an operator that was called in a deferred construction.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <torch/types.h>

#include <vector>

namespace fsdp::deferred {

inline constexpr int kNoStorage = -1;

// How a tensor that an operator took or gave lies in its storage.
struct TensorPlace {
  int storage = kNoStorage;
  std::vector<int64_t> sizes = {}, strides = {};
  int64_t offset = 0;  // in elements
  torch::ScalarType dtype = torch::kFloat32;
  torch::Tensor constant = {};  // where there is no storage: a copy of a tensor that was real
};

// A tensor that is real is copied.
TensorPlace place_of(const torch::Tensor& tensor);

struct RecordedOperator {
  c10::OperatorHandle operation;
  std::vector<c10::IValue> arguments = {};   // with tensors of the meta device in place of the real ones
  std::vector<TensorPlace> taken = {};       // those tensors, in their order
  std::vector<TensorPlace> given = {};       // the results, in theirs; with a storage where the operator makes it
  std::vector<int> reads = {}, writes = {};  // storages; one that it makes is written
  std::vector<int> replaces = {};            // of the written ones: those whose old bytes are not read
  bool draws = false;                        // random numbers, from the default generator
};

// The record of a call before its results exist.
RecordedOperator record_of(const c10::OperatorHandle& operation, const torch::jit::Stack& arguments);

// A storage of the recording.
struct RecordedStorage {
  int64_t bytes = 0;
  torch::Device device = torch::kCPU;
};

}  // namespace fsdp::deferred
