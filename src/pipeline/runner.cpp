#include "pipeline/runner.h"

#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <utility>

#include "api/tensor_parallel/tensor_axis.h"
#include "base/error.h"
#include "engine/reports.h"
#include "memory/freed_memory.h"
#include "optim/clip.h"
#include "optim/clip_plain.h"
#include "pipeline/action_error.h"
#include "pipeline/stage_shards.h"
#include "stages/cuts.h"
#include "stages/timing.h"

namespace fsdp::pipeline {

namespace {

using stages::StageAction;
using stages::StageSchedule;
using Kind = StageAction::Kind;

std::shared_ptr<StageParts> parts_of(const std::vector<PipelineBlock>& blocks, const PipelineOptions& options,
                                     const World& axis) {
  StageLayout layout = lay_out(blocks, options, axis.size());
  StageBlocks made = make_blocks(blocks, layout, axis.rank(), axis.device());
  return std::make_shared<StageParts>(axis, std::move(layout), std::move(made));
}

}  // namespace

Runner::Runner(std::vector<PipelineBlock> blocks, World axis, PipelineOptions options)
    : blocks_(std::move(blocks)),
      axis_(std::move(axis)),
      options_(std::move(options)),
      rank_(axis_.rank()),
      parts_(parts_of(blocks_, options_, axis_)),
      layout_(parts_->layout()),
      fingerprint_(fingerprint(blocks_, options_, layout_)),
      schedules_(options_, layout_),
      messages_(axis_, layout_, parts_->links(), *times_) {
  for (int stage = rank_; stage < layout_.stages(); stage += layout_.ranks) {
    const int first = layout_.first_block(stage);
    passes_.push_back(std::make_unique<StagePasses>(blocks_, parts_->blocks(), parts_->ties(), first,
                                                    first + layout_.cuts[stage] - 1));
  }
  report_.cuts = layout_.cuts;
  if (axis_.device().is_cpu()) memory::keep_freed_memory();
}

int Runner::agree(const ModelScopes& models, size_t inputs, std::optional<size_t> targets, StepRandomness& randomness) {
  const auto [micro_batches, number] = agree_on_call(axis_, layout_,
                                                     {.inputs = inputs,
                                                      .targets = targets,
                                                      .fingerprint = fingerprint_,
                                                      .sharded = !models.empty(),
                                                      .has_parameters = !parts_->blocks().root->parameters().empty(),
                                                      .random_number = randomness.number()});
  randomness.set_number(number);
  return micro_batches;
}

void Runner::check_scopes(const ModelScopes& models) const {
  for (const auto& model : models.all()) {
    FSDP_CHECK(!model->steps_in_backward(),
               "Pipeline: found a step in a scope of step_in_backward(), which holds for one backward of one model. "
               "Leave the scope out, and call the optimizer's step() after the pipeline's.");
    FSDP_CHECK(
        parts_->blocks().ties.empty() || model->group().size() == 1 || !model->in_no_sync(),
        "Pipeline: found a step in a scope of no_sync(), and the model has tied parameters. The order of its sums "
        "would depend on the cuts. Leave the scope out.");
  }
}

double Runner::step(const Tensors& inputs, const Tensors& targets, const Loss& loss) {
  FSDP_CHECK(!failed_, "Pipeline: an earlier step failed, so its gradients are incomplete. Restart the job.");
  FSDP_CHECK(!c10::InferenceMode::is_enabled(),
             "Pipeline: found a step in InferenceMode, which records no graph. Call it outside of the guard.");
  const ModelScopes models(root());
  check_scopes(models);
  StepRandomness randomness(axis_.device());
  const int micro_batches = agree(models, inputs.size(), targets.size(), randomness);
  parts_->ties().check_alike(axis_, blocks_);
  if (report_.costs.empty()) parts_->ties().check_equal_values(axis_, blocks_);
  const StageSchedule& schedule =
      schedules_.of({.micro_batches = micro_batches, .with_backward = true, .sharded = !models.empty()});
  const auto clock = report_.costs.empty() ? std::make_shared<BlockClock>(blocks_.size()) : nullptr;
  Call call{.context = {randomness, models, clock.get(), micro_batches},
            .inputs = inputs,
            .targets = &targets,
            .loss = &loss};
  const torch::AutoGradMode gradients(true);
  run(call, schedule);
  return note(call, schedule, clock.get()) / micro_batches;
}

Tensors Runner::forward(const Tensors& inputs) {
  FSDP_CHECK(!failed_, "Pipeline: an earlier step failed. Restart the job.");
  const ModelScopes models(root());
  StepRandomness randomness(axis_.device());
  const int micro_batches = agree(models, inputs.size(), std::nullopt, randomness);
  Call call{.context = {randomness, models, nullptr, micro_batches}, .inputs = inputs};
  call.outputs.resize(has(layout_.stages() - 1) ? micro_batches : 0);
  const torch::NoGradGuard no_gradients;
  run(call, schedules_.of({.micro_batches = micro_batches, .sharded = !models.empty()}));
  return std::move(call.outputs);
}

void Runner::run(Call& call, const StageSchedule& schedule) {
  failed_ = true;
  times_->begin_call();
  for (const StageAction& action : schedule.ranks[rank_]) {
    at_place([&] { return place_of(action); }, [&] { perform(call, action); });
  }
  times_->end_call();
  if (call.targets != nullptr) {
    // Gradients of sharded stages are published when their sum ends.
    call.context.models.empty() ? parts_->ties().publish() : parts_->step_ran(call.context.models);
  }
  parts_->links().finish();
  failed_ = false;
}

void Runner::perform(Call& call, const StageAction& action) {
  if (is_pass(action.kind)) return run_pass(call, action);
  const auto& [kind, stage, micro_batch, with_next] = action;
  const ActionTimes::Scope scope(*times_, action);
  switch (kind) {
    case Kind::SendForward:
      return messages_.send({stage + 1, false, micro_batch});
    case Kind::SendBackward:
      return messages_.send({stage - 1, true, micro_batch});
    case Kind::ReceiveForward:
    case Kind::ReceiveBackward:
      return messages_.begin_receive({stage, kind == Kind::ReceiveBackward, micro_batch});
    case Kind::Gather:
      return gather_stage(parts_->blocks(), layout_, stage);
    case Kind::Release:
      return release_stage(parts_->blocks(), layout_, stage);
    default:
      return;
  }
}

std::string Runner::place_of(const StageAction& action) const {
  const int first = layout_.first_block(action.stage), last = first + layout_.cuts[action.stage] - 1;
  const std::string blocks = first == last ? fmt::format("block {}", blocks_[first].name)
                                           : fmt::format("blocks {} to {}", blocks_[first].name, blocks_[last].name);
  if (action.kind == Kind::Gather || action.kind == Kind::Release)
    return fmt::format("stage {} ({}), {} of its parameters", action.stage, blocks,
                       action.kind == Kind::Gather ? "gather" : "release");
  const char* pass =
      action.kind == Kind::Forward || action.kind == Kind::SendForward || action.kind == Kind::ReceiveForward
          ? "forward"
          : "backward";
  return fmt::format("stage {} ({}), {} of micro-batch {}", action.stage, blocks, pass, action.micro_batch);
}

void Runner::run_pass(Call& call, const StageAction& pass) {
  const auto& [kind, stage, micro_batch, with_next] = pass;
  Tensors arrived;
  if (kind == Kind::Forward) {
    arrived = stage == 0 ? Tensors{call.inputs[micro_batch]} : messages_.take({stage, false, micro_batch});
  } else if (makes_input_gradient(kind) && !is_last(stage)) {
    arrived = messages_.take({stage, true, micro_batch});
  }
  const ActionTimes::Scope scope(*times_, pass);
  switch (kind) {
    case Kind::Forward:
      return run_forward(call, stage, micro_batch, arrived);
    case Kind::WeightGradient:
      return passes(stage).add_weight_gradients(call.context, micro_batch);
    default:
      return run_backward(call, stage, micro_batch, std::move(arrived),
                          kind == Kind::Backward ? StagePasses::Part::Whole : StagePasses::Part::InputGradients);
  }
}

void Runner::run_forward(Call& call, int stage, int micro_batch, const Tensors& inputs) {
  Tensors outputs = passes(stage).forward(call.context, micro_batch, inputs);
  if (!is_last(stage)) {
    messages_.put({stage + 1, false, micro_batch}, std::move(outputs));
  } else if (call.targets == nullptr) {
    FSDP_CHECK(outputs.size() == 1, "Pipeline: block {}, the last one, returned {} tensors, expected 1.",
               blocks_.back().name, outputs.size());
    call.outputs[micro_batch] = outputs[0];
  } else {
    const auto loss_of = [&](const torch::Tensor& output) {
      return (*call.loss)(output, (*call.targets)[micro_batch]);
    };
    const double divisor = options_.divides_loss ? call.context.micro_batches : 1;
    const torch::Tensor loss = passes(stage).add_loss(call.context, micro_batch, loss_of, divisor);
    call.loss_sum += loss.item<double>();
  }
}

void Runner::run_backward(Call& call, int stage, int micro_batch, Tensors gradients, StagePasses::Part part) {
  Tensors of_inputs = passes(stage).backward(call.context, micro_batch, std::move(gradients), part);
  if (stage > 0) {
    messages_.put({stage - 1, true, micro_batch}, std::move(of_inputs));
  } else if (const torch::Tensor& input = call.inputs[micro_batch]; input.requires_grad() && of_inputs[0].defined()) {
    torch::autograd::backward({input}, {of_inputs[0]});  // of the graph that made the input
  }
}

double Runner::clip(double max_norm, double norm_type) {
  const ModelScopes models(root());
  if (models.empty()) {
    const auto axes = tensor_axes_of(root());
    std::vector<std::shared_ptr<engine::OtherParts>> parts(axes.begin(), axes.end());
    parts.push_back(parts_);
    return optim::clip_plain_gradients(root().parameters(), parts, max_norm, norm_type);
  }
  std::vector<engine::Model*> pointers;
  for (const auto& model : models.all()) pointers.push_back(model.get());
  return optim::clip_gradients(pointers, max_norm, norm_type);
}

std::shared_ptr<report::RunningTrace> Runner::trace(const TraceOptions& options) {
  const ModelScopes models(root());
  auto trace = std::make_shared<report::RunningTrace>(name_of_rank(axis_, rank_),
                                                      /*alone=*/axis_.size() == 1 && models.ranks() == 1);
  times_->begin_trace();
  trace->add([times = times_] { return report::TracePart{.spans = times->end_trace()}; });
  TraceOptions of_model = options;
  for (const auto& model : models.all()) {
    engine::add_trace(*trace, model, of_model);
    of_model.tensor_bytes = nullptr;  // they are not of one model: the first tells them
  }
  return trace;
}

double Runner::note(const Call& call, const StageSchedule& schedule, BlockClock* clock) {
  pass_seconds_ = times_->pass_seconds();
  const StepPart own{.loss = call.loss_sum,
                     .passes = stages::sum_of_passes(schedule.ranks[rank_], pass_seconds_),
                     .seconds = times_->seconds()};
  const std::vector<StepPart> parts = exchange_parts(axis_, own);
  double loss = 0, longest = 0;
  stages::StageTimes busy;
  for (const StepPart& part : parts) {
    loss += part.loss;  // 0 but for the rank of the last stage
    busy += part.passes;
    longest = std::max(longest, part.seconds);
  }
  last_step_ = &schedule;
  report_.step_seconds = longest;
  report_.idle_share = longest > 0 ? 1 - busy.sum() / (longest * layout_.ranks) : 0;
  const int micro_batches = call.context.micro_batches;
  report_.idle_share_formula = schedules_.idle_share_formula(micro_batches, busy);
  if (report_.micro_batches != micro_batches) {
    report_.micro_batches = micro_batches;
    report_.schedule = stages::to_csv(schedule);
  }
  if (clock == nullptr) return loss;
  report_.costs = sum_over_ranks(axis_, clock->seconds());
  report_.measured_cuts = stages::even_cuts(report_.costs, layout_.stages());
  return loss;
}

double Runner::idle_share_of_passes() {
  FSDP_CHECK(last_step_ != nullptr,
             "Pipeline: found idle_share_of_passes() before a step, expected it after one. Call step() first.");
  std::vector<double> seconds;  // as stages::timing_of_passes has them, on this rank its own
  for (int rank = 0; rank < layout_.ranks; ++rank) {
    if (rank == rank_) {
      seconds.insert(seconds.end(), pass_seconds_.begin(), pass_seconds_.end());
    } else {
      seconds.resize(seconds.size() + stages::count_passes(last_step_->ranks[rank]));
    }
  }
  return stages::timing_of_passes(*last_step_, sum_over_ranks(axis_, seconds)).idle_share;
}

}  // namespace fsdp::pipeline
