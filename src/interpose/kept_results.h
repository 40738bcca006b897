// Results of costly operators that a checkpointed function keeps in the forward, so that its second run takes them
// instead of computing them again. Kept are matrix products, convolutions and attention (kept_results.cpp), or the
// choice of a function.
//
// They are seen below autograd, on a dispatch key that LibTorch keeps for code outside of its tree (CustomRNGKeyId):
// while a scope is open, every operator of its thread passes there. So nodes of the second run are made as ever and
// save what they save, and only the kernel's work is left out.
//
// A product that an operator in place follows at once, as the bias follows the product in torch::nn::Linear, is kept
// with what that writes; one that is changed later is computed again.
#pragma once

#include <ATen/core/ivalue.h>
#include <torch/types.h>

#include <cstddef>
#include <optional>
#include <vector>

#include "interpose/result_list.h"
#include "interpose/saved_tensors.h"

namespace fsdp::interpose {

class KeptResultList final : public ResultList {
 public:
  using ResultList::ResultList;

  bool holds(size_t number, const torch::Tensor& tensor) const override;
  std::vector<c10::IValue> at(size_t number) const override;

 private:
  struct Entry {
    std::vector<c10::IValue> results;
    std::vector<WatchedTensor> watched;
  };

  void append(const std::vector<c10::IValue>& results) override;
  void drop(size_t number) override { entries_[number] = {}; }

  std::vector<Entry> entries_;
};

// While it lives, operators of this thread add to the list, or take from it. With a null list they compute, as if there
// were no scope. Scopes nest; only the innermost acts.
class KeptResultsScope {
 public:
  enum class Run { First, Second };

  KeptResultsScope(ResultList* list, Run run);
  ~KeptResultsScope();
  KeptResultsScope(const KeptResultsScope&) = delete;
  KeptResultsScope& operator=(const KeptResultsScope&) = delete;

 private:
  friend class ComputationInScope;

  ResultList* list_;
  Run run_;
  KeptResultsScope* outer_;
  bool was_included_;
  size_t next_ = 0;               // of the second run
  std::optional<size_t> latest_;  // of the first: kept by the operator before this one, but for views
  std::vector<size_t> given_;     // in the second run
};

}  // namespace fsdp::interpose
