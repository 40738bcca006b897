#include "pipeline/runner.h"

#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <chrono>
#include <tuple>
#include <utility>

#include "api/tensor_parallel/tensor_axis.h"
#include "base/error.h"
#include "optim/clip.h"
#include "optim/clip_plain.h"
#include "pipeline/action_error.h"
#include "pipeline/stage_shards.h"
#include "pipeline/tags.h"
#include "stages/cuts.h"
#include "stages/rewrites.h"
#include "stages/schedules.h"
#include "stages/validate.h"

namespace fsdp::pipeline {

namespace {

using stages::StageAction;
using stages::StageSchedule;
using Kind = StageAction::Kind;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// The forwards alone, with their messages and gathers. They have an order that every rank can follow, as the whole has.
StageSchedule forwards_of(StageSchedule schedule) {
  const auto is_of_backward = [](const StageAction& action) {
    return (is_pass(action.kind) && action.kind != Kind::Forward) || action.kind == Kind::SendBackward ||
           action.kind == Kind::ReceiveBackward;
  };
  for (auto& actions : schedule.ranks) std::erase_if(actions, is_of_backward);
  return schedule;
}

}  // namespace

Runner::Runner(std::vector<PipelineBlock> blocks, World axis, PipelineOptions options)
    : blocks_(std::move(blocks)),
      axis_(std::move(axis)),
      options_(std::move(options)),
      rank_(axis_.rank()),
      layout_(lay_out(blocks_, options_, axis_.size())),
      made_(make_blocks(blocks_, layout_, rank_, axis_.device())),
      links_(axis_),
      ties_(made_, layout_, rank_, links_),
      parts_(std::make_shared<StageParts>(axis_, ties_, links_)),
      fingerprint_(fingerprint(blocks_, options_, layout_)) {
  for (int stage = rank_; stage < layout_.stages(); stage += layout_.ranks) {
    const int first = layout_.first_block(stage);
    passes_.push_back(std::make_unique<StagePasses>(blocks_, made_, ties_, first, first + layout_.cuts[stage] - 1));
  }
  report_.cuts = layout_.cuts;
}

Runner::ScheduleKey Runner::key_of(const ModelScopes& models, int micro_batches, bool with_backward) const {
  return {.micro_batches = micro_batches,
          .with_backward = with_backward,
          .gathers = !models.empty() && options_.gathers == GatherEvery::Step};
}

const StageSchedule& Runner::schedule_for(const ScheduleKey& key) {
  if (const auto known = schedules_.find(key); known != schedules_.end()) return known->second;
  const auto generate = stages::named_schedule(name_of(options_.schedule)).generate;
  StageSchedule schedule =
      stages::add_messages(stages::without_idle(generate(layout_.ranks, options_.stages_per_rank, key.micro_batches)));
  if (key.gathers) schedule = stages::add_gathers(schedule);
  stages::validate(schedule);
  if (!key.with_backward) schedule = forwards_of(std::move(schedule));
  return schedules_[key] = std::move(schedule);
}

int Runner::agree(const ModelScopes& models, size_t inputs, std::optional<size_t> targets, StepRandomness& randomness) {
  const auto [micro_batches, number] = agree_on_call(axis_, layout_,
                                                     {.inputs = inputs,
                                                      .targets = targets,
                                                      .fingerprint = fingerprint_,
                                                      .sharded = !models.empty(),
                                                      .random_number = randomness.number()});
  randomness.set_number(number);
  return micro_batches;
}

double Runner::step(const Tensors& inputs, const Tensors& targets, const Loss& loss) {
  FSDP_CHECK(!failed_, "Pipeline: an earlier step failed, so its gradients are incomplete. Restart the job.");
  FSDP_CHECK(!c10::InferenceMode::is_enabled(),
             "Pipeline: found a step in InferenceMode, which records no graph. Call it outside of the guard.");
  const ModelScopes models(root());
  for (const auto& model : models.all()) {
    FSDP_CHECK(!model->steps_in_backward(),
               "Pipeline: found a step in a scope of step_in_backward(), which holds for one backward of one model. "
               "Leave the scope out, and call the optimizer's step() after the pipeline's.");
  }
  StepRandomness randomness(axis_.device());
  const int micro_batches = agree(models, inputs.size(), targets.size(), randomness);
  ties_.check_alike(axis_, blocks_);
  if (report_.costs.empty() && models.empty()) ties_.check_equal_values(axis_, blocks_);
  const StageSchedule& schedule = schedule_for(key_of(models, micro_batches, /*with_backward=*/true));
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
  run(call, schedule_for(key_of(models, micro_batches, /*with_backward=*/false)));
  return std::move(call.outputs);
}

void Runner::run(Call& call, const StageSchedule& schedule) {
  failed_ = true;
  const auto start = Clock::now();
  for (const StageAction& action : schedule.ranks[rank_]) {
    at_place([&] { return place_of(action); }, [&] { perform(call, action); });
  }
  call.part.seconds = seconds_since(start);
  if (call.targets != nullptr) {
    // Gradients of sharded stages are published when their sum ends.
    call.context.models.empty() ? ties_.publish() : parts_->step_ran(call.context.models);
  }
  links_.finish();
  failed_ = false;
}

void Runner::perform(Call& call, const StageAction& action) {
  const auto& [kind, stage, micro_batch, with_next] = action;
  switch (kind) {
    case Kind::Forward:
      return run_forward(call, stage, micro_batch);
    case Kind::Backward:
      return run_backward(call, stage, micro_batch, StagePasses::Part::Whole);
    case Kind::InputGradient:
      return run_backward(call, stage, micro_batch, StagePasses::Part::InputGradients);
    case Kind::WeightGradient:
      return run_weight_gradients(call, stage, micro_batch);
    case Kind::SendForward:
      return send({stage + 1, false, micro_batch});
    case Kind::SendBackward:
      return send({stage - 1, true, micro_batch});
    case Kind::ReceiveForward:
    case Kind::ReceiveBackward:
      return begin_receive({stage, kind == Kind::ReceiveBackward, micro_batch});
    case Kind::Gather:
      return gather_stage(made_, layout_, stage);
    case Kind::Release:
      return release_stage(made_, layout_, stage);
    default:
      return;
  }
}

void Runner::send(const Way& way) {
  const auto& [stage, backward, micro_batch] = way;
  links_.send(made_here_.extract(way).mapped(), layout_.rank_of(stage), stage_tag(stage, backward));
}

void Runner::begin_receive(const Way& way) {
  const auto& [stage, backward, micro_batch] = way;
  const int peer = layout_.rank_of(source_of(way));
  at_place([&] { return wait_for(way); },
           [&] { arriving_.emplace(way, links_.receive(peer, stage_tag(stage, backward))); });
}

Tensors Runner::take(const Way& way) {
  if (auto here = made_here_.extract(way)) return std::move(here.mapped());
  return at_place([&] { return wait_for(way); }, [&] { return arriving_.extract(way).mapped().take(); });
}

std::string Runner::wait_for(const Way& way) const {
  const int from = source_of(way);
  return fmt::format("waiting for {} of stage {}, which is on {}", std::get<1>(way) ? "the gradients" : "the output",
                     from, rank_name(from));
}

std::string Runner::rank_name(int stage) const {
  return fmt::format("rank {}", name_of_rank(axis_, layout_.rank_of(stage)));
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

void Runner::run_forward(Call& call, int stage, int micro_batch) {
  const Tensors inputs = stage == 0 ? Tensors{call.inputs[micro_batch]} : take({stage, false, micro_batch});
  const auto start = Clock::now();
  Tensors outputs = passes(stage).forward(call.context, micro_batch, inputs);
  if (!is_last(stage)) {
    made_here_[{stage + 1, false, micro_batch}] = std::move(outputs);
  } else if (call.targets == nullptr) {
    FSDP_CHECK(outputs.size() == 1, "Pipeline: block {}, the last one, returned {} tensors, expected 1.",
               blocks_.back().name, outputs.size());
    call.outputs[micro_batch] = outputs[0];
  } else {
    const auto loss_of = [&](const torch::Tensor& output) {
      return (*call.loss)(output, (*call.targets)[micro_batch]);
    };
    const torch::Tensor loss = passes(stage).add_loss(call.context, micro_batch, loss_of, call.context.micro_batches);
    call.part.loss += loss.item<double>();
  }
  call.part.busy_seconds += seconds_since(start);
}

void Runner::run_backward(Call& call, int stage, int micro_batch, StagePasses::Part part) {
  Tensors gradients = is_last(stage) ? Tensors() : take({stage, true, micro_batch});
  const auto start = Clock::now();
  Tensors of_inputs = passes(stage).backward(call.context, micro_batch, std::move(gradients), part);
  if (stage > 0) {
    made_here_[{stage - 1, true, micro_batch}] = std::move(of_inputs);
  } else if (const torch::Tensor& input = call.inputs[micro_batch]; input.requires_grad() && of_inputs[0].defined()) {
    torch::autograd::backward({input}, {of_inputs[0]});  // of the graph that made the input
  }
  call.part.busy_seconds += seconds_since(start);
}

void Runner::run_weight_gradients(Call& call, int stage, int micro_batch) {
  const auto start = Clock::now();
  passes(stage).add_weight_gradients(call.context, micro_batch);
  call.part.busy_seconds += seconds_since(start);
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

double Runner::note(const Call& call, const StageSchedule& schedule, BlockClock* clock) {
  const std::vector<StepPart> parts = exchange_parts(axis_, call.part);
  double loss = 0, busy = 0, longest = 0;
  for (const StepPart& part : parts) {
    loss += part.loss;  // 0 but for the rank of the last stage
    busy += part.busy_seconds;
    longest = std::max(longest, part.seconds);
  }
  report_.step_seconds = longest;
  report_.idle_share = longest > 0 ? 1 - busy / (longest * layout_.ranks) : 0;
  if (const int micro_batches = call.context.micro_batches; report_.micro_batches != micro_batches) {
    report_.micro_batches = micro_batches;
    report_.idle_share_formula =
        stages::idle_share_formula(name_of(options_.schedule), layout_.ranks, options_.stages_per_rank, micro_batches);
    report_.schedule = stages::to_csv(schedule);
  }
  if (clock == nullptr) return loss;
  report_.costs = sum_over_ranks(axis_, clock->seconds());
  report_.measured_cuts = stages::even_cuts(report_.costs, layout_.stages());
  return loss;
}

}  // namespace fsdp::pipeline
