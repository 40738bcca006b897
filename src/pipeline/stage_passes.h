// The forwards and backwards of one stage.
//
// A stage is cut into segments where two of its blocks share a parameter (tied_gradients.h). Each segment has a graph
// of its own, from leaves at its beginning to roots at its end. Most stages are one segment.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "interpose/later_products.h"
#include "pipeline/block_clock.h"
#include "pipeline/model_scope.h"
#include "pipeline/step_randomness.h"
#include "pipeline/tied_gradients.h"

namespace fsdp::pipeline {

// The common data of all stages of a step.
struct StepContext {
  const StepRandomness& randomness;
  const ModelScopes& models;
  BlockClock* clock;  // null: blocks are not measured
  int micro_batches;

  // The number of a micro-batch among those of all ranks that have the same stages: round by round, the ranks in their
  // order.
  int64_t number_of(int micro_batch) const { return int64_t{micro_batch} * models.ranks() + models.rank(); }
};

class StagePasses {
 public:
  // The arguments outlive it.
  StagePasses(const std::vector<PipelineBlock>& blocks, const StageBlocks& made, TiedGradients& ties, int first_block,
              int last_block);

  // Makes a scalar of the stage's output.
  using Loss = std::function<torch::Tensor(const torch::Tensor& output)>;

  // Returns the outputs. Throws Error for outputs that cannot be sent. With gradients enabled it keeps the graph.
  Tensors forward(const StepContext& step, int micro_batch, const Tensors& inputs);
  // Behind the forward of the last stage: the loss, whose gradient `backward` begins with, divided by `divisor`.
  torch::Tensor add_loss(const StepContext& step, int micro_batch, const Loss& loss, double divisor);
  // How much of the backward runs.
  enum class Part { Whole, InputGradients };
  // Takes the gradients of the outputs; {} behind a loss. Returns those of the inputs, undefined where there is none.
  Tensors backward(const StepContext& step, int micro_batch, Tensors gradients, Part part);
  // The rest of a backward whose input gradients are computed.
  void add_weight_gradients(const StepContext& step, int micro_batch);

 private:
  struct Segment {
    int first, last;  // blocks
  };
  // The ends of a segment's graph, for one micro-batch.
  struct Graph {
    Tensors leaves, roots;
    std::vector<std::shared_ptr<torch::Tensor>> of_leaves = {};  // gradients, once the backward has run
  };

  // Its number is unique among all segments and micro-batches of a step.
  static ModelScopes::Scope scope_of(const StepContext& step, const Segment& segment, int micro_batch);
  Tensors run_block(const StepContext& step, int block, int micro_batch, const Tensors& inputs);
  Tensors forward(const StepContext& step, const Segment& segment, int micro_batch, const Tensors& inputs);
  Tensors backward(const StepContext& step, const Segment& segment, int micro_batch, Graph graph, Tensors gradients,
                   Part part);
  void run_backward(const Segment& segment, int micro_batch, const Tensors& roots, const Tensors& gradients,
                    const Tensors& leaves, Part part);

  const std::vector<PipelineBlock>& blocks_;
  const StageBlocks& made_;
  TiedGradients& ties_;
  std::vector<Segment> segments_;
  std::map<int, std::vector<Graph>> graphs_;  // by micro-batch, then by segment
  // Weight gradients of micro-batches whose input gradients are computed, in the order of the segments' backwards.
  std::map<int, std::vector<std::pair<Segment, interpose::LaterProducts>>> later_;
};

}  // namespace fsdp::pipeline
