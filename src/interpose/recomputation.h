// One call of a checkpointed function: the tensors that autograd saves in it are not kept; the first that a backward
// asks for runs the function again, and that run's are given out instead.
//
// The second run's graph is never run backward: it only serves to save tensors. A node puts a returned tensor into its
// place in the first run's graph, so gradients, and gradients of these, go through that graph. This is how
// torch.utils.checkpoint works without reentrant autograd; a nested backward in a node of its own, the older way, needs
// an input that requires gradients and has no second order.
//
//   forward    scope of the call      node saves t  ->  number and form of t
//   backward   node asks for number i ->  scope of a SecondRun  ->  t of number i; those behind it wait
//
// Owned by the hooks of the tensors that it stands for, so it goes with the graph. Threads: the forward is of one; the
// nodes of a backward may ask on several.
#pragma once

#include <torch/types.h>

#include <cstddef>
#include <functional>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <vector>

#include "interpose/kept_inputs.h"
#include "interpose/kept_results.h"
#include "interpose/measured_call.h"
#include "interpose/saved_tensors.h"
#include "interpose/surroundings.h"
#include "interpose/tensor_form.h"

namespace fsdp::interpose {

struct CheckpointedFunction {
  // Given the inputs, the same function once more; what it returns is of no use.
  std::function<void(const std::vector<torch::Tensor>& inputs)> run_again;
  std::function<std::vector<torch::Tensor>()> buffers;  // may be none; put back after the second run
  bool stop_early = true;
  bool keeps_products = false;
  std::function<bool(std::string_view name)> keeps = {};  // which results of operators instead; none: products'
  // Measures the call as one of this block; may be none. Then it keeps no products.
  std::shared_ptr<MeasuredBlocks> measured = {};
  size_t measured_block = 0;
};

class CheckpointedCall final : public SavedTensorKeeper, public std::enable_shared_from_this<CheckpointedCall> {
 public:
  // Now is the moment of the forward.
  CheckpointedCall(const std::vector<torch::Tensor>& inputs, CheckpointedFunction function);

  // Hooks for the forward, whose scope is this keeper's.
  SavedTensorHooks hooks() override;
  // The results that the first run keeps or measures; null: it does neither.
  ResultList* first_results();
  // The run is over; the tensor is part of its result, and its holders may change it.
  void returned(const torch::Tensor& tensor);
  void forward_ends();

  // The number of a tensor that the forward saves.
  size_t add(const torch::Tensor& tensor);
  // So many follow, of an operator that computes before it saves.
  void announce(size_t tensors) { count_saved(forms_.size() + tensors); }
  // The tensor of that number; once in each second run. Throws as activation_checkpoint.h says.
  torch::Tensor take(size_t number);

 private:
  friend class SecondRun;

  void count_saved(size_t tensors);
  void run_again();
  void forget_after_this_backward();

  std::mutex mutex_;
  KeptInputs inputs_;
  Surroundings surroundings_;
  CheckpointedFunction function_;
  std::unique_ptr<KeptResultList> kept_results_;  // none: it keeps no results
  std::unique_ptr<MeasuredCall> measured_;        // none: it is not measured
  bool forward_is_over_ = false;
  std::vector<TensorForm> forms_;     // of the tensors that the forward saved
  std::vector<WatchedTensor> again_;  // tensors of the second run that are not used yet
};

// True if this thread is in a second run.
bool runs_again();

// Before an operator of ours computes, which saves these tensors behind its computation and nothing else: in a second
// run that needs no more than these, it ends here.
void about_to_save(std::initializer_list<const torch::Tensor*> tensors);

}  // namespace fsdp::interpose
