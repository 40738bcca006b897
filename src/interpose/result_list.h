// The results of operators in one call of a checkpointed function that its second run could take instead of computing
// them, in their order. They are kept (kept_results.h), or only measured (measured_call.h).
#pragma once

#include <ATen/core/ivalue.h>
#include <torch/types.h>

#include <cstddef>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

namespace fsdp::interpose {

class Computation;

// Filled by one thread; read by one at a time.
class ResultList {
 public:
  // True if results are kept of an operator of that name.
  using Choice = std::function<bool(std::string_view name)>;

  explicit ResultList(Choice choice) : choice_(std::move(choice)) {}
  virtual ~ResultList() = default;
  ResultList(const ResultList&) = delete;
  ResultList& operator=(const ResultList&) = delete;

  const Choice& choice() const { return choice_; }  // none: products
  size_t size() const { return saved_at_.size(); }

  // Performs an operator of the first run.
  virtual void compute(Computation& computation);
  // The results of the operator that was performed last are the next entry.
  void add(const std::vector<c10::IValue>& results);
  // The operator that was performed last made a part of the entry of that number.
  virtual void completes(size_t number) { static_cast<void>(number); }
  // So many tensors are saved by now, or will be by the operator that is about to compute.
  virtual void count_saved(size_t tensors) { saved_ = tensors; }

  // Results that came when that many were saved: a second run that ends with the last of these needs none of them.
  void forget_behind(size_t tensors);
  // Results that share memory with the tensor.
  void forget(const torch::Tensor& tensor);
  // True if the tensor shares memory with the entry of that number.
  virtual bool holds(size_t number, const torch::Tensor& tensor) const = 0;
  // The same results, sharing elements with what was kept; empty if nothing was, or it was forgotten.
  virtual std::vector<c10::IValue> at(size_t number) const;

 private:
  virtual void append(const std::vector<c10::IValue>& results) = 0;
  virtual void drop(size_t number) = 0;

  Choice choice_;
  size_t saved_ = 0;
  std::vector<size_t> saved_at_;  // by entry: when it came
};

}  // namespace fsdp::interpose
