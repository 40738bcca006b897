#include "pipeline/stage_passes.h"

#include <torch/csrc/autograd/autograd.h>

#include <chrono>
#include <deque>
#include <utility>

#include "base/error.h"
#include "collectives/tensor_header.h"
#include "interpose/entrance.h"
#include "interpose/hooks_aside.h"

namespace fsdp::pipeline {

namespace {

// Throws Error for outputs that no other stage could get, wherever the next block is: cuts do not change the rules.
void check_outputs(const PipelineBlock& block, const Tensors& outputs) {
  FSDP_CHECK(!outputs.empty() && std::ssize(outputs) <= kMostTensors,
             "Pipeline: block {} returned {} tensors, expected 1 to {}.", block.name, outputs.size(), kMostTensors);
  for (size_t i = 0; i < outputs.size(); ++i) {
    FSDP_CHECK(outputs[i].defined(),
               "Pipeline: output {} of block {} is no tensor. Return a tensor without elements "
               "where there is nothing to return.",
               i, block.name);
    FSDP_CHECK(
        outputs[i].layout() == torch::kStrided && !outputs[i].is_nested(),
        "Pipeline: output {} of block {} is {}, expected a dense tensor. Convert it to a dense one in the block.", i,
        block.name, c10::str(outputs[i].layout()));
    FSDP_CHECK(outputs[i].dim() <= collectives::TensorHeader::kMostDims,
               "Pipeline: output {} of block {} has {} dimensions, expected at most {}.", i, block.name,
               outputs[i].dim(), collectives::TensorHeader::kMostDims);
  }
}

// Leaves with the same values, for a graph of its own.
Tensors leaves_of(const Tensors& tensors) {
  Tensors leaves;
  for (const torch::Tensor& tensor : tensors) leaves.push_back(tensor.detach().requires_grad_(tensor.requires_grad()));
  return leaves;
}

}  // namespace

StagePasses::StagePasses(const std::vector<PipelineBlock>& blocks, const StageBlocks& made, TiedGradients& ties,
                         int first_block, int last_block)
    : blocks_(blocks), made_(made), ties_(ties) {
  segments_.push_back({first_block, first_block});
  for (int block = first_block + 1; block <= last_block; ++block) {
    if (ties.separates(segments_.back().first, block)) segments_.push_back({block, block});
    segments_.back().last = block;
  }
}

ModelScopes::Scope StagePasses::scope_of(const StepContext& step, const Segment& segment, int micro_batch) {
  return {step.models, int64_t{segment.first} * step.micro_batches + micro_batch};
}

Tensors StagePasses::run_block(const StepContext& step, int block, int micro_batch, const Tensors& inputs) {
  step.randomness.seed(step.number_of(micro_batch), block);
  if (step.clock != nullptr) step.clock->watch_inputs(block, inputs);
  const auto start = std::chrono::steady_clock::now();
  Tensors outputs = blocks_[block].forward(*made_.modules[block], inputs);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  if (step.clock != nullptr) step.clock->add(block, seconds.count());
  check_outputs(blocks_[block], outputs);
  return outputs;
}

Tensors StagePasses::forward(const StepContext& step, const Segment& segment, int micro_batch, const Tensors& inputs) {
  const ModelScopes::Scope scope = scope_of(step, segment, micro_batch);
  const bool keeps = torch::GradMode::is_enabled();
  Graph graph{.leaves = keeps ? leaves_of(inputs) : Tensors(), .roots = {}};
  Tensors tensors = inputs;
  for (size_t i = 0; i < graph.leaves.size(); ++i) {
    const auto& gradient = graph.of_leaves.emplace_back(std::make_shared<torch::Tensor>());
    tensors[i] = graph.leaves[i].requires_grad() ? interpose::enter(graph.leaves[i], gradient) : graph.leaves[i];
  }
  for (int block = segment.first; block <= segment.last; ++block) {
    tensors = run_block(step, block, micro_batch, tensors);
  }
  if (!keeps) return tensors;
  graph.roots = tensors;
  graphs_[micro_batch].push_back(std::move(graph));
  return leaves_of(tensors);
}

Tensors StagePasses::forward(const StepContext& step, int micro_batch, const Tensors& inputs) {
  Tensors tensors = inputs;
  for (const Segment& segment : segments_) tensors = forward(step, segment, micro_batch, tensors);
  return tensors;
}

torch::Tensor StagePasses::add_loss(const StepContext& step, int micro_batch, const Loss& loss, double divisor) {
  const Segment& segment = segments_.back();
  const ModelScopes::Scope scope = scope_of(step, segment, micro_batch);
  step.randomness.seed(step.number_of(micro_batch), static_cast<int>(blocks_.size()));
  Tensors& roots = graphs_.at(micro_batch).back().roots;
  FSDP_CHECK(roots.size() == 1, "Pipeline: block {}, the last one, returned {} tensors, expected 1.",
             blocks_[segment.last].name, roots.size());
  const auto start = std::chrono::steady_clock::now();
  torch::Tensor value = loss(roots[0]);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  if (step.clock != nullptr) step.clock->add(segment.last, seconds.count());
  FSDP_CHECK(value.defined() && value.numel() == 1, "Pipeline: the loss has {} elements, expected 1.",
             value.defined() ? value.numel() : 0);
  FSDP_CHECK(value.requires_grad(), "Pipeline: the loss does not depend on a parameter that requires gradients.");
  roots[0] = value / divisor;
  return value.detach();
}

void StagePasses::run_backward(const Segment& segment, int micro_batch, const Tensors& roots, const Tensors& gradients,
                               const Tensors& leaves, Part part) {
  if (part == Part::Whole) {
    if (!roots.empty()) torch::autograd::backward(roots, gradients);
    return;
  }
  Tensors wanted;
  for (const torch::Tensor& leaf : leaves) {
    if (leaf.requires_grad()) wanted.push_back(leaf);
  }
  // Gradients of tied parameters do not wait: the block before that shares the parameter needs them. Hooks on these
  // parameters do: they see the gradient when it arrives.
  const size_t of_inputs = wanted.size();
  const Tensors tied = ties_.trained_within(segment.first, segment.last);
  wanted.insert(wanted.end(), tied.begin(), tied.end());
  interpose::LaterProducts later;
  Tensors found(wanted.size());
  {
    std::deque<interpose::HooksAside> hooks;
    for (const torch::Tensor& parameter : tied) hooks.emplace_back(parameter);
    if (!roots.empty()) found = later.backward_to_inputs(roots, gradients, wanted);
  }
  for (size_t i = 0; i < tied.size(); ++i) {
    const torch::Tensor& sum = found[of_inputs + i];
    if (!sum.defined()) continue;
    ties_.found(tied[i], sum);
    later.add(tied[i], sum);
  }
  later_[micro_batch].emplace_back(segment, std::move(later));
}

Tensors StagePasses::backward(const StepContext& step, const Segment& segment, int micro_batch, Graph graph,
                              Tensors gradients, Part part) {
  const ModelScopes::Scope scope = scope_of(step, segment, micro_batch);
  Tensors roots, of_roots;
  for (size_t i = 0; i < graph.roots.size(); ++i) {
    const bool is_loss = gradients.empty();
    if (!graph.roots[i].requires_grad() || !(is_loss || gradients[i].defined())) continue;
    roots.push_back(graph.roots[i]);
    of_roots.push_back(is_loss ? torch::ones_like(graph.roots[i]) : gradients[i]);
  }
  ties_.add_roots(segment.first, segment.last, micro_batch, roots, of_roots);
  graph.roots.clear();
  gradients.clear();
  if (step.clock != nullptr) step.clock->backward_begins();
  run_backward(segment, micro_batch, roots, of_roots, graph.leaves, part);
  if (step.clock != nullptr) step.clock->backward_ends(segment.first);
  ties_.pass_on(segment.first, segment.last, micro_batch);
  Tensors of_leaves;
  for (const auto& gradient : graph.of_leaves) of_leaves.push_back(std::move(*gradient));
  return of_leaves;
}

Tensors StagePasses::backward(const StepContext& step, int micro_batch, Tensors gradients, Part part) {
  std::vector<Graph> graphs = std::move(graphs_.extract(micro_batch).mapped());
  for (size_t i = segments_.size(); i-- > 0;) {
    gradients = backward(step, segments_[i], micro_batch, std::move(graphs[i]), std::move(gradients), part);
  }
  return gradients;
}

void StagePasses::add_weight_gradients(const StepContext& step, int micro_batch) {
  auto waiting = std::move(later_.extract(micro_batch).mapped());
  for (auto& [segment, later] : waiting) {
    const ModelScopes::Scope scope = scope_of(step, segment, micro_batch);
    if (step.clock != nullptr) step.clock->backward_begins();
    later.run();
    if (step.clock != nullptr) step.clock->backward_ends(segment.first);
  }
}

}  // namespace fsdp::pipeline
