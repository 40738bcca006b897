#include "training/trained_stages.h"

#include <fsdp/deferred_init.h>

#include <algorithm>
#include <chrono>

#include "models/block_costs.h"
#include "options/options.h"
#include "training/step_data.h"

namespace trainer {

namespace {

fsdp::PipelineOptions pipeline_options(const RunOptions& options) {
  const auto* schedule = std::ranges::find(kPipelineSchedules, options.pipeline_schedule);
  fsdp::PipelineOptions pipeline{.schedule = static_cast<fsdp::PipelineSchedule>(schedule - kPipelineSchedules.begin()),
                                 .stages_per_rank = static_cast<int>(options.stages_per_rank),
                                 .divides_loss = false};  // the sum of the gradients is divided, once
  if (options.stages != "auto") {
    const auto blocks = static_cast<int>(models::blocks(options.model).size());
    pipeline.cuts = fsdp::pipeline_cuts(options.stages, blocks, static_cast<int>(options.stage_count()));
  }
  return pipeline;
}

}  // namespace

TrainedStages::TrainedStages(const RunOptions& options, const RunMesh& mesh)
    : TrainedModel(options.model),
      axis_(mesh.pipeline()),
      model_(options.model, mesh.division(), options.recomputation()),
      pipeline_(
          fsdp::deferred_init([&] { return fsdp::Pipeline(watched_blocks(), axis_, pipeline_options(options)); })) {}

std::vector<fsdp::PipelineBlock> TrainedStages::watched_blocks() {
  std::vector<fsdp::PipelineBlock> blocks = model_.blocks();
  for (fsdp::PipelineBlock& block : blocks) {
    block.forward = [this, forward = block.forward](torch::nn::Module& module, const fsdp::Tensors& inputs) {
      if (phase_ != nullptr) phase_->goes_on();
      return forward(module, inputs);
    };
  }
  return blocks;
}

StepPasses TrainedStages::run_step(Training& training, int64_t steps_done) {
  using Clock = std::chrono::steady_clock;
  const fsdp::World& data = training.mesh.data();
  const int64_t count = rounds_of(training);
  const torch::Device device = axis_.device();
  training.phase.enter("forwards and backwards of a pipeline", steps_done + 1);
  phase_ = &training.phase;
  const double waited_before = training.sharded.communication().wait_seconds;
  StepPasses passes;
  fsdp::Tensors inputs, targets;
  const Clock::time_point begin = Clock::now();
  for (int64_t round = 0; round < count && (is_first() || is_last()); ++round) {
    const data::Batch batch = read_micro_batch(training, steps_done, round * data.size() + data.rank());
    if (is_first()) inputs.push_back(data::to_device(batch.tokens, device));
    if (is_last()) targets.push_back(data::to_device(batch.targets, device));
  }
  passes.data_seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  seed_step(training.options, steps_done);
  fsdp::Tensors found;
  pipeline_.step(inputs, targets, [&](const torch::Tensor& output, const torch::Tensor& target) {
    const torch::Tensor loss = model_.loss(output, target);
    found.push_back(loss.detach());
    return training.scaler.scale(loss);
  });
  torch::Tensor losses =
      is_last() ? torch::stack(found).to(torch::kCPU, torch::kFloat64) : torch::empty({count}, torch::kFloat64);
  share_from_last(losses);
  passes.losses = losses.unbind();
  passes.wait_seconds = training.sharded.communication().wait_seconds - waited_before;
  phase_ = nullptr;
  return passes;
}

std::vector<torch::Tensor> TrainedStages::losses(const std::vector<data::Batch>& batches) {
  const torch::NoGradGuard no_grad;
  fsdp::Tensors inputs;
  for (const data::Batch& batch : batches) {
    inputs.push_back(is_first() ? data::to_device(model_.padded(batch.tokens), axis_.device()) : batch.tokens);
  }
  const fsdp::Tensors outputs = pipeline_.forward(inputs);
  torch::Tensor losses = torch::empty({std::ssize(batches)}, torch::kFloat64);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const torch::Tensor targets = data::to_device(batches[i].targets, outputs[i].device());
    losses[static_cast<int64_t>(i)] = model_.loss(outputs[i].narrow(1, 0, targets.size(1)), targets).cpu();
  }
  share_from_last(losses);
  return losses.unbind();
}

torch::Tensor TrainedStages::next_token_logits(const torch::Tensor& tokens, models::KeyValueCache& cache) {
  const torch::NoGradGuard no_grad;
  const int64_t before = cache.length();
  written_ = before == 0 ? tokens : torch::cat({written_.narrow(1, 0, before), tokens}, 1);
  cache.advance(tokens.size(1));
  const fsdp::Tensors outputs = pipeline_.forward({model_.padded(written_)});
  torch::Tensor logits = torch::empty({1, config().vocabulary}, torch::kFloat32);
  if (is_last()) logits = model_.next_token_logits(outputs[0], written_.size(1) - 1).to(torch::kCPU, torch::kFloat32);
  share_from_last(logits);
  return logits;
}

}  // namespace trainer
