#include "training/train_step.h"

#include <fmt/format.h>
#include <fsdp/random.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "data/batch.h"
#include "training/non_finite.h"

namespace trainer {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

bool has_dropout(const models::ModelConfig& model) {
  return model.embedding_dropout > 0 || model.attention_dropout > 0 || model.residual_dropout > 0 ||
         (model.lora && model.lora->dropout > 0);
}

// This rank's passes of a step.
struct Passes {
  std::vector<torch::Tensor> losses;  // of its micro-batches, on its device
  double data_seconds = 0;            // of reading data
  double wait_seconds = 0;            // for other ranks
};

// A micro-batch of the whole job, by its number in the step.
data::Batch read_micro_batch(const Training& training, int64_t steps_done, int64_t number) {
  const RunOptions& options = training.options;
  const data::StepShape shape = options.step_shape();
  const auto starts = training.order.window_starts(shape, steps_done, number % shape.ranks, number / shape.ranks);
  return data::make_batch(*training.corpus.training, starts, options.model.context, options.model.vocabulary);
}

// Runs the micro-batch's forward and backward. Does not wait for a GPU.
void run_micro_batch(Training& training, int64_t steps_done, int64_t number, Passes& passes) {
  const RunOptions& options = training.options;
  training.phase.enter("forward and backward", steps_done + 1, number + 1);
  const Clock::time_point begin = Clock::now();
  const data::Batch batch = read_micro_batch(training, steps_done, number);
  passes.data_seconds += seconds_since(begin);
  if (has_dropout(options.model)) {
    fsdp::seed_micro_batch(static_cast<uint64_t>(options.seed), steps_done + 1, number);
  }
  const torch::Device device = training.world.device();
  const torch::Tensor loss =
      training.model.loss(data::to_device(batch.tokens, device), data::to_device(batch.targets, device));
  training.scaler.scale(loss).backward();  // the module itself, as ever
  passes.losses.push_back(loss.detach());
}

// Micro-batches are dealt out to the ranks in turn. In the last round some ranks may have none.
int64_t rounds_of(const Training& training) {
  const int64_t ranks = training.world.size();
  return (training.options.micro_batches_of_step() + ranks - 1) / ranks;
}

// Adds up the gradients of this rank's micro-batches.
Passes run_micro_batches(Training& training, int64_t steps_done) {
  const int64_t ranks = training.world.size(), all = training.options.micro_batches_of_step();
  const double waited_before = training.sharded.communication().wait_seconds;
  Passes passes;
  for (int64_t round = 0; round < rounds_of(training); ++round) {
    const int64_t number = round * ranks + training.world.rank();
    const bool is_whole = (round + 1) * ranks <= all, has_one = number < all;
    if (!is_whole) training.sharded.any_rank_has_batch(has_one);
    if (has_one) {
      run_micro_batch(training, steps_done, number, passes);
    } else {
      training.sharded.backward_without_batch();
    }
  }
  passes.wait_seconds = training.sharded.communication().wait_seconds - waited_before;
  return passes;
}

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

void read_step(const Passes& passes, const torch::Tensor& norm, StepFacts& own, StepRecord& record) {
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
  const Passes passes = run_micro_batches(training, steps_done);
  clock.mark(StepMoment::PassesEnd);
  training.phase.enter("clips the gradients", steps_done + 1);
  training.scaler.unscale_(training.sharded);
  const torch::Tensor norm = training.sharded.clip_grad_norm_async_(options.clip);
  clock.mark(StepMoment::Clipped);
  read_step(passes, norm, own, record);
  own.seconds = clock.passes_seconds();
  own.wait_seconds = passes.wait_seconds;
  training.phase.enter("tells the other ranks its losses", steps_done + 1);
  outcome.ranks = exchange_facts(training.world, own, rounds_of(training));
  record.loss = mean_loss(outcome.ranks);
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
