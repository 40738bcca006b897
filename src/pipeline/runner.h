// Runs a pipeline's schedule on this rank: action by action, in the order of its list.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "pipeline/links.h"
#include "pipeline/stage_parts.h"
#include "pipeline/stage_passes.h"
#include "pipeline/step_facts.h"
#include "stages/stage_schedule.h"

namespace fsdp::pipeline {

class Runner {
 public:
  Runner(std::vector<PipelineBlock> blocks, World axis, PipelineOptions options);

  torch::nn::Module& root() { return *made_.root; }
  using Loss = std::function<torch::Tensor(const torch::Tensor& output, const torch::Tensor& target)>;
  double step(const Tensors& inputs, const Tensors& targets, const Loss& loss);
  Tensors forward(const Tensors& inputs);
  double clip(double max_norm, double norm_type);
  const PipelineReport& report() const { return report_; }

 private:
  // A call of step or forward.
  struct Call {
    StepContext context;
    const Tensors& inputs;
    const Tensors* targets = nullptr;  // null: no backward
    const Loss* loss = nullptr;
    Tensors outputs = {};  // of the last stage
    StepPart part = {};
  };
  struct ScheduleKey {
    int micro_batches;
    bool with_backward, gathers;
    auto operator<=>(const ScheduleKey&) const = default;
  };
  // Tensors on their way to a stage: inputs, or gradients of its outputs.
  using Way = std::tuple<int, bool, int>;  // the stage that gets them, whether they are gradients, the micro-batch

  // The number of micro-batches. Gives `randomness` the first rank's number.
  int agree(const ModelScopes& models, size_t inputs, std::optional<size_t> targets, StepRandomness& randomness);
  const stages::StageSchedule& schedule_for(const ScheduleKey& key);
  // Of a call.
  ScheduleKey key_of(const ModelScopes& models, int micro_batches, bool with_backward) const;
  void run(Call& call, const stages::StageSchedule& schedule);
  void perform(Call& call, const stages::StageAction& action);
  void run_forward(Call& call, int stage, int micro_batch);
  void run_backward(Call& call, int stage, int micro_batch, StagePasses::Part part);
  void run_weight_gradients(Call& call, int stage, int micro_batch);
  void send(const Way& way);
  void begin_receive(const Way& way);
  Tensors take(const Way& way);
  // The stage that sends.
  static int source_of(const Way& way) { return std::get<0>(way) + (std::get<1>(way) ? 1 : -1); }
  std::string wait_for(const Way& way) const;
  std::string place_of(const stages::StageAction& action) const;
  std::string rank_name(int stage) const;
  // Fills the report. Returns the sum of the losses.
  double note(const Call& call, const stages::StageSchedule& schedule, BlockClock* clock);
  bool has(int stage) const { return layout_.rank_of(stage) == rank_; }
  bool is_last(int stage) const { return stage + 1 == layout_.stages(); }
  StagePasses& passes(int stage) { return *passes_[stage / layout_.ranks]; }

  std::vector<PipelineBlock> blocks_;
  World axis_;
  PipelineOptions options_;
  int rank_;
  StageLayout layout_;
  StageBlocks made_;
  Links links_;
  TiedGradients ties_;
  std::shared_ptr<StageParts> parts_;                 // models of this rank's stages hold it weakly
  std::vector<std::unique_ptr<StagePasses>> passes_;  // of this rank's stages
  uint64_t fingerprint_;
  std::map<ScheduleKey, stages::StageSchedule> schedules_;
  std::map<Way, Tensors> made_here_;
  std::map<Way, Arrival> arriving_;
  bool failed_ = false;
  PipelineReport report_;
};

}  // namespace fsdp::pipeline
