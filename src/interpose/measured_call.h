// One measured call of a recomputed block: marks the tensors that it saves and the results that it would keep, and
// times its operators. It keeps nothing.
#pragma once

#include <ATen/core/ivalue.h>
#include <torch/types.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "interpose/measured_blocks.h"
#include "interpose/result_list.h"

namespace fsdp::interpose {

class MeasuredCall final : public ResultList {
 public:
  MeasuredCall(std::shared_ptr<MeasuredBlocks> blocks, size_t block, const std::vector<torch::Tensor>& inputs,
               Choice choice);
  ~MeasuredCall() override { close(); }

  void saves(const torch::Tensor& tensor);
  // The first run is over. `stop_early`: the second run ends with the last tensor that it saves.
  void ends(bool stop_early);
  void runs_again() { close(); }
  void is_retained() { blocks_->is_retained(); }

  void compute(Computation& computation) override;
  void completes(size_t number) override { entries_[number].seconds += last_seconds_; }
  void count_saved(size_t tensors) override;
  bool holds(size_t number, const torch::Tensor& tensor) const override;

 private:
  struct Entry {
    StorageMarks marks;
    double seconds = 0;  // of the operators that made it
  };

  void append(const std::vector<c10::IValue>& results) override;
  void drop(size_t number) override { entries_[number] = {}; }
  void close();

  std::shared_ptr<MeasuredBlocks> blocks_;
  size_t block_;
  StorageMarks saved_;
  std::vector<Entry> entries_;
  size_t most_saved_ = 0;
  double last_seconds_ = 0, seconds_ = 0;  // of the last operator, and of all
  double seconds_to_last_saved_ = 0;       // of results that a second run needs
  bool is_open_ = true;
};

}  // namespace fsdp::interpose
