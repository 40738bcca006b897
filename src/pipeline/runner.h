// Runs a pipeline's schedule on this rank: action by action, in the order of its list.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "pipeline/stage_messages.h"
#include "pipeline/stage_parts.h"
#include "pipeline/stage_passes.h"
#include "pipeline/step_facts.h"
#include "pipeline/step_schedules.h"

namespace fsdp::pipeline {

class Runner {
 public:
  Runner(std::vector<PipelineBlock> blocks, World axis, PipelineOptions options);

  torch::nn::Module& root() { return *parts_->blocks().root; }
  using Loss = std::function<torch::Tensor(const torch::Tensor& output, const torch::Tensor& target)>;
  double step(const Tensors& inputs, const Tensors& targets, const Loss& loss);
  Tensors forward(const Tensors& inputs);
  double clip(double max_norm, double norm_type);
  const PipelineReport& report() const { return report_; }
  double idle_share_of_passes();
  std::shared_ptr<report::RunningTrace> trace(const TraceOptions& options);

 private:
  // A call of step or forward.
  struct Call {
    StepContext context;
    const Tensors& inputs;
    const Tensors* targets = nullptr;  // null: no backward
    const Loss* loss = nullptr;
    Tensors outputs = {};  // of the last stage
    double loss_sum = 0;   // over micro-batches; on the rank of the last stage
  };
  // Throws Error for a step in a scope that it has no meaning in.
  void check_scopes(const ModelScopes& models) const;
  // The number of micro-batches. Gives `randomness` the first rank's number.
  int agree(const ModelScopes& models, size_t inputs, std::optional<size_t> targets, StepRandomness& randomness);
  void run(Call& call, const stages::StageSchedule& schedule);
  void perform(Call& call, const stages::StageAction& action);
  void run_pass(Call& call, const stages::StageAction& pass);
  void run_forward(Call& call, int stage, int micro_batch, const Tensors& inputs);
  void run_backward(Call& call, int stage, int micro_batch, Tensors gradients, StagePasses::Part part);
  std::string place_of(const stages::StageAction& action) const;
  // Fills the report. Returns the sum of the losses.
  double note(const Call& call, const stages::StageSchedule& schedule, BlockClock* clock);
  bool has(int stage) const { return layout_.rank_of(stage) == rank_; }
  bool is_last(int stage) const { return stage + 1 == layout_.stages(); }
  StagePasses& passes(int stage) { return *passes_[stage / layout_.ranks]; }

  std::vector<PipelineBlock> blocks_;
  World axis_;
  PipelineOptions options_;
  int rank_;
  std::shared_ptr<StageParts> parts_;
  const StageLayout& layout_;                         // that of the parts
  std::vector<std::unique_ptr<StagePasses>> passes_;  // of this rank's stages
  uint64_t fingerprint_;
  StepSchedules schedules_;
  std::shared_ptr<ActionTimes> times_ = std::make_shared<ActionTimes>();  // a trace may outlive the pipeline
  StageMessages messages_;
  bool failed_ = false;
  PipelineReport report_;
  const stages::StageSchedule* last_step_ = nullptr;  // its schedule, of schedules_
  std::vector<double> pass_seconds_;                  // of this rank in that step
};

}  // namespace fsdp::pipeline
