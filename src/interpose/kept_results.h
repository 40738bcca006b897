// Results of costly operators that a checkpointed function keeps in the forward, so that its second run takes them
// instead of computing them again. Kept are matrix products, convolutions and attention (kept_results.cpp), or the
// choice of a function.
//
// They are seen below autograd, on a dispatch key that LibTorch keeps for code outside of its tree (CustomRNGKeyId):
// while a scope is open, every operator of its thread passes there. So nodes of the second run are made as ever and
// save what they save, and only the kernel's work is left out.
//
// A list may also measure: then it marks the results that it would keep, and times the operators.
//
// A product that an operator in place follows at once, as the bias follows the product in torch::nn::Linear, is kept
// with what that writes; one that is changed later is computed again.
#pragma once

#include <ATen/core/ivalue.h>
#include <torch/types.h>

#include <cstddef>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "interpose/measured_blocks.h"
#include "interpose/saved_tensors.h"

namespace fsdp::interpose {

// One call's, in the order of the operators. Filled by one thread; read by one at a time.
class KeptResultList {
 public:
  enum class Keeps { Results, Marks };

  // True if results are kept of an operator of that name.
  using Choice = std::function<bool(std::string_view name)>;

  explicit KeptResultList(Keeps keeps = Keeps::Results, Choice choice = {})
      : keeps_(keeps), choice_(std::move(choice)) {}

  const Choice& choice() const { return choice_; }  // none: products

  void add(const std::vector<c10::IValue>& results);
  // So many tensors are saved by now, or will be by the operator that is about to compute.
  void count_saved(size_t tensors);
  // Results that came when that many were saved: a second run that ends with the last of these needs none of them.
  void forget_behind(size_t tensors);
  // The same, sharing elements with what was kept; empty where it was forgotten.
  std::vector<c10::IValue> at(size_t number) const;
  // Results that share memory with the tensor.
  void forget(const torch::Tensor& tensor);
  // True if it shares memory with that of this number.
  bool holds(size_t number, const torch::Tensor& tensor) const;
  size_t size() const { return entries_.size(); }

  // Where results are marked:
  bool measures() const { return keeps_ == Keeps::Marks; }
  // An operator took so long.
  void took(double seconds) { seconds_ += seconds; }
  // It made a part of the entry of that number.
  void took(double seconds, size_t number) { entries_[number].seconds += seconds; }
  double seconds() const { return seconds_; }                    // of all operators
  double seconds_to_last_saved() const { return until_saved_; }  // of results that a second run needs
  double seconds_of_kept() const;
  StorageMarks marks() const;

 private:
  struct Entry {
    void forget();
    bool is_kept() const { return !results.empty() || !marks.empty(); }
    std::vector<c10::IValue> results;
    std::vector<WatchedTensor> watched;
    StorageMarks marks;
    double seconds = 0;
    size_t saved;  // when it came
  };
  Keeps keeps_;
  Choice choice_;
  std::vector<Entry> entries_;
  size_t saved_ = 0, most_saved_ = 0;
  double seconds_ = 0, until_saved_ = 0;
};

// While it lives, operators of this thread add to the list, or take from it. With a null list they compute, as if there
// were no scope. Scopes nest; only the innermost acts.
class KeptResultsScope {
 public:
  enum class Run { First, Second };

  KeptResultsScope(KeptResultList* list, Run run);
  ~KeptResultsScope();
  KeptResultsScope(const KeptResultsScope&) = delete;
  KeptResultsScope& operator=(const KeptResultsScope&) = delete;

 private:
  friend class Computation;

  KeptResultList* list_;
  Run run_;
  KeptResultsScope* outer_;
  bool was_included_;
  size_t next_ = 0;               // of the second run
  std::optional<size_t> latest_;  // of the first: kept by the operator before this one, but for views
  std::vector<size_t> given_;     // in the second run
};

}  // namespace fsdp::interpose
