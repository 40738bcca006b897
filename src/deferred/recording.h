// The record of a deferred construction: the operators that were called, and what they made.
//
// Its tensors share it, so it lives as long as one of them is deferred. An operator is performed on tensors of the meta
// device, which finds shapes and errors; one whose result depends on values is performed for real, on values that are
// made for it. Results of only real tensors stay real, except random numbers. For one thread at a time.
#pragma once

#include <c10/util/intrusive_ptr.h>
#include <torch/types.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "deferred/recorded_operator.h"
#include "deferred/replay.h"
#include "interpose/deferred_tensor.h"

namespace fsdp::deferred {

class Recording final : public interpose::OperatorRecorder, public std::enable_shared_from_this<Recording> {
 public:
  void operator_called(const c10::OperatorHandle& operation, c10::DispatchKeySet below,
                       torch::jit::Stack& stack) override;
  void view_made(const at::Tensor& view) override { made_.emplace_back(view.getIntrusivePtr()); }

  // The default generator has this state before the operator that is recorded next.
  void seed(torch::Tensor state) { replay_.seed(operators_.size(), std::move(state)); }
  // The generator's state behind all operators.
  torch::Tensor state_after();
  // A deferred tensor's bytes, in a tensor that lies in its storage as it does; at `place` where they can be made
  // there.
  torch::Tensor value_of(const torch::Tensor& deferred, const std::optional<StorageBytes>& place = std::nullopt);
  // Deferred results of operators that are still held.
  std::vector<torch::Tensor> held_tensors() const;

 private:
  using WeakTensor = c10::weak_intrusive_ptr<at::TensorImpl, at::UndefinedTensorImpl>;

  // A tensor of the meta device, and the argument that it stands for.
  using Pairs = std::vector<std::pair<torch::Tensor, torch::Tensor>>;

  bool is_open() const { return interpose::RecordedScope::current() == this; }
  void perform(RecordedOperator recorded, const torch::jit::Stack& arguments, const torch::jit::Stack& meta_results,
               torch::jit::Stack& stack);
  torch::Tensor result_for(const torch::Tensor& meta, Pairs& pairs, torch::Device device, RecordedOperator& recorded);
  void keep(RecordedOperator recorded);
  void perform_on_values(RecordedOperator recorded, const torch::jit::Stack& arguments, torch::jit::Stack& stack);

  std::vector<RecordedOperator> operators_;
  std::vector<RecordedStorage> storages_;
  std::vector<WeakTensor> made_;
  Replay replay_{operators_, storages_};
};

}  // namespace fsdp::deferred
