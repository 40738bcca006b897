#include "options/resolve.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "options/mesh_choice.h"
#include "options/rank_range.h"

namespace trainer {

namespace {

constexpr int64_t kMostSteps = 1'000'000'000;

int64_t micro_batches_for(int64_t tokens, const RunOptions& options) {
  const double sequences =
      static_cast<double>(options.data_ranks() * options.batch) * static_cast<double>(options.model.context);
  return std::max<int64_t>(1, std::llround(static_cast<double>(tokens) / sequences));
}

// Whole steps within so many passes; at least one.
int64_t steps_for(double epochs, int64_t windows, const RunOptions& options) {
  const auto a_step = static_cast<double>(options.micro_batches_of_step() * options.batch);
  const double steps = std::floor(epochs * static_cast<double>(windows) / a_step);
  return static_cast<int64_t>(std::clamp(steps, 1.0, static_cast<double>(kMostSteps)));
}

void fill_schedule(RunOptions& options) {
  if (!options.warmup) options.warmup = std::min<int64_t>(100, options.steps / 5);
  if (options.schedule == "wsd" && !options.decay_steps) {
    const int64_t after_warmup = std::max<int64_t>(1, options.steps - *options.warmup);
    options.decay_steps = std::clamp<int64_t>(options.steps / 10, 1, after_warmup);
  }
}

// The tokens of a whole run, and the windows of all its epochs, are counted in 64 bits.
constexpr double kMostTogether = 4e18;

std::string length_problem(const RunOptions& options) {
  const double tokens_of_step = static_cast<double>(options.micro_batches_of_step()) *
                                static_cast<double>(options.batch) * static_cast<double>(options.model.context);
  const double tokens = static_cast<double>(options.steps) * tokens_of_step;
  if (tokens <= kMostTogether) return "";
  return fmt::format(
      "--steps {} of {:.15g} tokens each are {:.2g} tokens, more than can be counted. Use fewer steps, or smaller "
      "ones.",
      options.steps, tokens_of_step, tokens);
}

// Empty where the passes over the data have a step.
std::string epochs_problem(const RunOptions& options, int64_t windows) {
  if (*options.epochs * static_cast<double>(windows) > kMostTogether) {
    return fmt::format("--epochs {} over {} sequences are more than can be counted. Use fewer epochs.", *options.epochs,
                       windows);
  }
  const int64_t a_step = options.step_shape().windows();
  if (std::ceil(*options.epochs) * static_cast<double>(windows) >= static_cast<double>(a_step)) return "";
  return fmt::format(
      "--epochs {} over {} sequences of training data are less than a step, which takes {}. Use a smaller --batch, "
      "more "
      "epochs or more data.",
      *options.epochs, windows, a_step);
}

std::vector<std::string> schedule_problems(const RunOptions& options) {
  std::vector<std::string> problems;
  if (const std::string problem = length_problem(options); !problem.empty()) problems.push_back(problem);
  const int64_t steps = options.steps, warmup = *options.warmup;
  if (warmup > steps) {
    problems.push_back(fmt::format("--warmup {} is more than --steps {}.", warmup, steps));
  } else if (options.decay_steps.value_or(0) > steps - warmup && options.decay_steps != 1) {
    problems.push_back(
        fmt::format("--warmup {} and --decay-steps {} are more than --steps {}.", warmup, *options.decay_steps, steps));
  }
  if (options.trace_steps && options.trace_steps->first > steps) {
    problems.push_back(
        fmt::format("--trace-steps begins with step {}, after --steps {}.", options.trace_steps->first, steps));
  } else if (options.trace_steps && options.trace_steps->last > steps) {
    problems.push_back(
        fmt::format("--trace-steps ends with step {}, after --steps {}.", options.trace_steps->last, steps));
  }
  return problems;
}

// Other ranks than before divide the same step, where its sequences come out even.
void keep_step(RunOptions& options) {
  const int64_t of_micro_batch = options.data_ranks() * options.batch;
  if (!options.sequences_per_step || *options.sequences_per_step % of_micro_batch != 0) return;
  const int64_t micro_batches = *options.sequences_per_step / of_micro_batch;
  if (options.micro_batches == micro_batches) return;
  options.micro_batches = micro_batches;
  options.chosen.flags.insert("--micro-batches");  // saved with the run
}

}  // namespace

std::vector<std::string> resolve(RunOptions& options, const Job& job) {
  options.ranks = job.ranks;
  if (const auto range = rank_range_in(options.elastic)) {
    // On the command line the number is not known yet: it is --ranks, which may be left out.
    if (job.is_known && (job.ranks < range->least || job.ranks > range->most)) {
      return {fmt::format("--elastic is {}, and the job has {} ranks. Start as many as it allows.", options.elastic,
                          job.ranks)};
    }
    options.ranks = range->most;
  }
  if (job.is_known && !options.tensor_parts) options.tensor_parts = options.tensor_parallel;
  if (job.is_known || job.ranks_are_known) {
    std::vector<std::string> problems = mesh_problems(options);
    if (!problems.empty()) return problems;
  }
  keep_step(options);
  if (options.target_tokens_per_step) {
    options.micro_batches = micro_batches_for(*options.target_tokens_per_step, options);
  }
  if (options.optimizer == "muon" && !options.muon_lr) options.muon_lr = options.lr;
  if (options.epochs && !job.windows) return {};
  if (options.epochs) {
    const std::string problem = epochs_problem(options, *job.windows);
    if (!problem.empty()) return {problem};
    const int64_t steps = steps_for(*options.epochs, *job.windows, options);
    options.steps = std::min(steps, options.most_steps.value_or(steps));
  }
  fill_schedule(options);
  return schedule_problems(options);
}

int64_t windows_in(int64_t tokens, int64_t context) { return tokens > context ? (tokens - 1) / context : 0; }

}  // namespace trainer
