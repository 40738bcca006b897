// The model that is trained, divided into the stages of a pipeline.
#pragma once

#include "models/pipeline_blocks.h"
#include "training/run_phase.h"
#include "training/trained_model.h"

namespace trainer {

class TrainedStages final : public TrainedModel {
 public:
  TrainedStages(const RunOptions& options, const RunMesh& mesh);

  torch::nn::Module& module() override { return pipeline_.stage(); }
  void freeze(const std::set<std::string>& names) override { model_.freeze(pipeline_.stage(), names); }
  StepPasses run_step(Training& training, int64_t steps_done) override;
  std::vector<torch::Tensor> losses(const std::vector<data::Batch>& batches) override;
  int64_t batches_at_once() const override { return int64_t{4} * axis_.size(); }
  // Without a cache between the stages: each token is a forward of all before it.
  torch::Tensor next_token_logits(const torch::Tensor& tokens, models::KeyValueCache& cache) override;
  fsdp::Trace trace(fsdp::ShardedModel&, const fsdp::TraceOptions& options) override {
    return pipeline_.trace(options);  // the sharded model of its stages as well
  }
  const fsdp::PipelineReport* pipeline_report() const override { return &pipeline_.report(); }
  double idle_share_of_passes() override { return pipeline_.idle_share_of_passes(); }

 private:
  std::vector<fsdp::PipelineBlock> watched_blocks();
  bool is_first() const { return axis_.rank() == 0; }
  bool is_last() const { return axis_.rank() + 1 == axis_.size(); }
  // The last stage's values on every rank of the pipeline.
  void share_from_last(torch::Tensor& values) { axis_.broadcast_(values, axis_.size() - 1); }

  fsdp::World axis_;
  models::PipelinedModel model_;
  RunPhase* phase_ = nullptr;  // told of each block's forward; null: of none
  fsdp::Pipeline pipeline_;
  torch::Tensor written_;  // the tokens of `next_token_logits` so far, [1, length]
};

}  // namespace trainer
