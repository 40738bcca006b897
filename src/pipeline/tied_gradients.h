// Gradients of tied parameters. In one process's backward they are added from the last block to the first, for each
// micro-batch. Here each block passes its sum to the block before that shares the parameter.
//
// The block adds its own gradients to the sum from the blocks behind: the sum goes into its backward as a root, which
// autograd adds first. A hook on its copy sees the new sum. The first of the blocks, the home, keeps it: its gradient
// is the whole one. `publish` copies it to the other blocks at the end of a step.
#pragma once

#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "pipeline/links.h"
#include "pipeline/stage_blocks.h"

namespace fsdp::pipeline {

class TiedGradients {
 public:
  // `links` and `blocks` outlive it.
  TiedGradients(const StageBlocks& blocks, const StageLayout& layout, int rank, Links& links);

  // True if this block and an earlier one, from `first` on, have copies of one parameter: one backward of both would
  // add their gradients to different copies.
  bool separates(int first, int block) const;
  // Before the backward of the blocks from `first` to `last`, for a micro-batch: adds the sums from the blocks behind
  // to the roots.
  void add_roots(int first, int last, int micro_batch, Tensors& roots, Tensors& gradients);
  // Tied parameters of these blocks that require gradients.
  Tensors trained_within(int first, int last) const;
  // In a backward without hooks on that parameter: its sum.
  void found(const torch::Tensor& parameter, const torch::Tensor& sum);
  // After it: passes the sums on.
  void pass_on(int first, int last, int micro_batch);
  // All micro-batches are over, and sums of sharded models have ended: every copy's gradient becomes the home's.
  void publish();
  // True if the parameter is a copy, and not the home: a norm does not count it.
  bool is_copy(const torch::Tensor& parameter) const;
  // A collective of the axis, if the model has ties. Throws Error on all ranks if one copy of a parameter requires
  // gradients and another does not.
  void check_alike(World& axis, const std::vector<PipelineBlock>& blocks) const;
  // A collective of the axis, and of the models of sharded stages, if the model has ties. Throws Error on all ranks if
  // copies of a parameter have other values.
  void check_equal_values(World& axis, const std::vector<PipelineBlock>& blocks) const;
  // True if this rank has no tied parameter.
  bool empty() const { return ends_.empty(); }

 private:
  // This rank's copy of a tied parameter.
  struct End {
    int tie;
    size_t copy;
    torch::Tensor parameter;
    std::shared_ptr<torch::Tensor> sum = std::make_shared<torch::Tensor>();  // that the last backward made
  };

  const Tie& tie_of(const End& end) const { return blocks_.ties[end.tie]; }
  int block_of(const End& end) const { return tie_of(end).copies[end.copy].block; }
  int rank_of(int tie, size_t copy) const;

  const StageBlocks& blocks_;
  const StageLayout& layout_;
  int rank_;
  Links& links_;
  std::vector<End> ends_;
  std::map<std::tuple<int, size_t, int>, torch::Tensor> local_;  // sums for copies of this rank, by micro-batch
};

}  // namespace fsdp::pipeline
