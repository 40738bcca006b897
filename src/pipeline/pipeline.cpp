#include "fsdp/pipeline.h"

#include "base/error.h"
#include "pipeline/runner.h"
#include "stages/cuts.h"

namespace fsdp {

namespace detail {

Tensors as_tensors(torch::Tensor tensor) { return {std::move(tensor)}; }

const torch::Tensor& only_input(const Tensors& inputs, const char* block) {
  FSDP_CHECK(inputs.size() == 1,
             "Pipeline: block {} takes 1 tensor, and the block before returned {}. Let its forward take Tensors.",
             block, inputs.size());
  return inputs[0];
}

}  // namespace detail

std::vector<int> pipeline_cuts(const std::string& text, int blocks, int stages) {
  return stages::read_cuts(text, blocks, stages);
}

std::vector<int> pipeline_cuts(const std::vector<double>& costs, int stages) {
  return stages::even_cuts(costs, stages);
}

std::string pipeline_cuts_text(const std::vector<int>& cuts) { return stages::to_string(cuts); }

Pipeline::Pipeline(std::vector<PipelineBlock> blocks, World axis, PipelineOptions options)
    : runner_(std::make_unique<pipeline::Runner>(std::move(blocks), std::move(axis), std::move(options))) {}
Pipeline::Pipeline(Pipeline&&) noexcept = default;
Pipeline& Pipeline::operator=(Pipeline&&) noexcept = default;
Pipeline::~Pipeline() = default;

torch::nn::Module& Pipeline::stage() { return runner_->root(); }

double Pipeline::step(
    const Tensors& inputs, const Tensors& targets,
    const std::function<torch::Tensor(const torch::Tensor& output, const torch::Tensor& target)>& loss) {
  return runner_->step(inputs, targets, loss);
}

Tensors Pipeline::forward(const Tensors& inputs) { return runner_->forward(inputs); }

double Pipeline::clip_grad_norm_(double max_norm, double norm_type) { return runner_->clip(max_norm, norm_type); }

Trace Pipeline::trace(const TraceOptions& options) { return Trace(runner_->trace(options)); }

const PipelineReport& Pipeline::report() const { return runner_->report(); }

double Pipeline::idle_share_of_passes() { return runner_->idle_share_of_passes(); }

}  // namespace fsdp
