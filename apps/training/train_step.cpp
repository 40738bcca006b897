#include "training/train_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "training/non_finite.h"
#include "training/step_data.h"

namespace trainer {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

// Returns the scalars' values. Waits once, for the first scalar's device.
std::vector<double> read_numbers(std::vector<torch::Tensor> scalars) {
  for (torch::Tensor& scalar : scalars)
    scalar = scalar.to(scalars.front().device(), torch::kFloat64, /*non_blocking=*/true);
  const torch::Tensor on_host = torch::stack(scalars).cpu();
  const auto* first = on_host.const_data_ptr<double>();
  return {first, first + on_host.numel()};
}

// Which gradient is not finite. A collective.
std::string not_finite_text(Training& training) {
  const auto found = first_not_finite(training.world, training.sharded, training.options.model);
  if (!found) return "all gradients are";
  return fmt::format("the first gradient that is not is that of {}, unit {}, in the piece that rank {} holds",
                     found->parameter, found->unit, found->rank);
}

[[noreturn]] void stop_at(Training& training, int64_t step, const std::string& problem) {
  training.job.hopeless.set();
  throw fsdp::Error(
      fmt::format("step {}: {}. Go on from an earlier checkpoint with a lower --lr or --clip, or pass over such steps "
                  "with --on-nonfinite skip.",
                  step, problem));
}

void read_step(const StepPasses& passes, const torch::Tensor& norm, StepFacts& own, StepRecord& record) {
  std::vector<torch::Tensor> scalars = passes.losses;
  scalars.push_back(norm);
  const std::vector<double> numbers = read_numbers(std::move(scalars));
  own.losses.assign(numbers.begin(), numbers.end() - 1);
  record.grad_norm = numbers.back();
}

// The reason for this step to change no parameter; empty if there is none.
std::string problem_of(const Training& training, const StepRecord& record, const std::vector<StepFacts>& ranks) {
  const int rank = rank_with_loss_not_finite(ranks);
  if (rank >= 0) return fmt::format("the loss of rank {} is not finite", rank);
  const bool scaled = training.options.scales_loss();  // then the scaler finds gradients that are not finite
  if (!scaled && !std::isfinite(record.grad_norm)) return "the losses are finite, and the norm of the gradient is not";
  return "";
}

// Updates the weights, or skips the step. Returns a note for the user, which may be empty.
std::string update(Training& training, StepRecord& record, const std::vector<StepFacts>& ranks) {
  std::string problem = problem_of(training, record, ranks);
  if (!problem.empty()) {
    problem += fmt::format("; {}", not_finite_text(training));
    if (training.options.on_nonfinite == "stop") stop_at(training, record.step, problem);
    record.skipped = true;
    record.grad_norm = std::numeric_limits<double>::quiet_NaN();
  } else {
    record.skipped = !training.scaler.step(training.optimizer.optimizer());
  }
  training.scaler.update();
  training.optimizer.optimizer().zero_grad();
  return problem.empty() ? "" : problem + "; no parameter was changed";
}

void add_idle_share(const Training& training, StepRecord& record) {
  const fsdp::PipelineReport* report = training.model.pipeline_report();
  if (report == nullptr) return;
  record.idle_share = report->idle_share;
  record.idle_share_formula = report->idle_share_formula;
}

}  // namespace

StepOutcome train_step(Training& training, int64_t steps_done, StepFacts own, StepClock& clock) {
  const Clock::time_point begin = Clock::now();
  const RunOptions& options = training.options;
  StepOutcome outcome{.record = {.step = steps_done + 1}, .ranks = {}, .event = {}};
  StepRecord& record = outcome.record;
  record.lr = options.learning_rate().at(steps_done);
  training.optimizer.set_lr(record.lr / options.lr);
  if (const auto lr = training.optimizer.muon_lr()) record.learning_rates = {{"matrices", *lr}, {"others", record.lr}};
  if (options.scales_loss()) record.loss_scale = training.scaler.scale_value();
  const double waited_before = training.sharded.communication().wait_seconds;
  clock.mark(StepMoment::Begin);
  const StepPasses passes = training.model.run_step(training, steps_done);
  clock.mark(StepMoment::PassesEnd);
  training.phase.enter("clips the gradients", steps_done + 1);
  training.scaler.unscale_(training.sharded);
  const torch::Tensor norm = training.sharded.clip_grad_norm_async_(options.clip);
  clock.mark(StepMoment::Clipped);
  read_step(passes, norm, own, record);
  clock.mark(StepMoment::Read);
  own.seconds = clock.passes_seconds();
  own.wait_seconds = passes.wait_seconds;
  training.phase.enter("tells the other ranks its losses", steps_done + 1);
  outcome.ranks = exchange_facts(training.world, own, rounds_of(training));
  record.loss = mean_loss(outcome.ranks, training.mesh.ranks_of_replica());
  add_idle_share(training, record);
  clock.mark(StepMoment::Decided);
  training.phase.enter("updates the weights", steps_done + 1);
  outcome.event = update(training, record, outcome.ranks);
  clock.mark(StepMoment::Updated);
  record.data_seconds = std::min(passes.data_seconds, own.seconds);
  record.forward_backward_seconds = own.seconds - *record.data_seconds;
  record.optimizer_seconds = clock.update_seconds();
  record.wait_seconds = training.sharded.communication().wait_seconds - waited_before;
  record.step_seconds = seconds_since(begin);
  record.other_seconds = std::max(0.0, record.step_seconds - own.seconds - *record.optimizer_seconds);
  return outcome;
}

}  // namespace trainer
