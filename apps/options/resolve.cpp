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
  const auto sequences = static_cast<double>(options.data_ranks() * options.batch * options.model.context);
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
  const double tokens = static_cast<double>(options.steps) * static_cast<double>(options.tokens_per_step());
  if (tokens <= kMostTogether) return "";
  return fmt::format(
      "--steps {} of {} tokens each are {:.2g} tokens, more than can be counted. Use fewer steps, or smaller ones.",
      options.steps, options.tokens_per_step(), tokens);
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

std::vector<std::string> contradictions(const RunOptions& options) {
  std::vector<std::string> problems;
  auto check = [&](bool holds, const std::string& problem) {
    if (!holds) problems.push_back(problem);
  };
  check(!options.decay_steps || options.schedule == "wsd",
        fmt::format("--decay-steps is given, and --schedule {} does not wait before it falls. Use --schedule wsd.",
                    options.schedule));
  check(options.patience == 0 || options.validate_every > 0,
        fmt::format("--patience {} counts validations, and there is none before the end. Give --validate-every.",
                    options.patience));
  check(!options.json || options.eval_only, "--json is given without --eval-only, whose result it is about.");
  check(!options.memory || options.dry_run, "--memory is given without --dry-run, which compares with it.");
  check(!options.hosts || options.dry_run, "--hosts is given without --dry-run, which plans for them.");
  check(!options.hosts || options.ranks <= 1 || options.ranks % *options.hosts == 0,
        fmt::format("--hosts {} does not divide --ranks {}, and each host has equally many.", options.hosts.value_or(1),
                    options.ranks));
  check(!options.peak_flops || options.dry_run, "--peak-flops is given without --dry-run, which tells the time by it.");
  check(!options.eval_only || !options.dry_run, "--eval-only and --dry-run are both given. Leave one out.");
  check(!options.export_best || options.export_model, "--export-best is given without --export.");
  check(!options.export_best || options.keeps_best(),
        "--export-best is given, and no best checkpoint is kept. Give --validate-every, and leave out --no-best and "
        "--no-save.");
  check(!options.no_strict || !options.checkpoint.empty() || !options.model_options.init_from.empty(),
        "--no-strict is given without --checkpoint or --init-from, whose weights it is about.");
  check(!options.no_save || (options.save_every == 0 && options.save_minutes.value_or(0) == 0),
        "--no-save is given with --save-every or --save-minutes. Leave out one of them.");
  check(options.offload_directory.empty() || options.offloads() || options.offload_activations,
        "--offload-directory is given, and --offload is none. Give --offload optimizer, --offload all or "
        "--offload-activations.");
  check(!options.activation_memory || !options.offload_activations,
        "--activation-memory and --offload-activations are both given: the budget is for activations that stay in "
        "memory. Leave one out.");
  check(!options.offloads() || !options.eval_only || !options.offload_directory.empty(),
        "--offload is given with --eval-only, which has no run's folder. Give --offload-directory as well.");
  const int64_t recomputed = options.recomputation().blocks;
  check(recomputed <= options.model.layers,
        fmt::format("--activation-checkpoint is {}, expected at most {}, the number of layers. Use all.", recomputed,
                    options.model.layers));
  check(!options.activation_memory || options.activation_checkpoint == "none",
        fmt::format("--activation-memory and --activation-checkpoint {} are both given, and the first decides what the "
                    "layers keep. Leave one out.",
                    options.activation_checkpoint));
  check(!options.muon_lr || options.optimizer == "muon",
        fmt::format("--muon-lr is given, and --optimizer is {}.", options.optimizer));
  check(!options.no_save || options.restarts() == 0 || options.hot_restart,
        "--no-save is given with --max-restarts or --elastic, which go on from a checkpoint. Leave one out.");
  check(options.restarts() > 0 || !options.hot_restart,
        "--hot-restart is given with --max-restarts 0, which starts nothing again. Leave one out.");
  check(!options.hot_restart || (!options.offloads() && !options.offload_activations),
        "--hot-restart and --offload or --offload-activations are both given: the first keeps the state in memory, the "
        "others in files. Leave one out.");
  check(!options.hot_restart || options.elastic.empty(),
        "--hot-restart and --elastic are both given: what ranks left in memory is for as many ranks. Leave one out.");
  check(options.elastic.empty() || options.shard_group_size == 0,
        "--shard-group-size is given with --elastic: the groups of fewer ranks would be others. Leave it out.");
  const int64_t group = options.shard_group_size;
  check(options.strategy != "no-shard" || group <= 1,
        fmt::format("--shard-group-size is {} with --strategy no-shard, which shards nothing.", group));
  // Under a launcher --ranks stays at 1 and the launcher's number counts; `shard` compares with that.
  check(options.ranks <= 1 || group <= 0 || options.has_mesh() || options.ranks % group == 0,
        fmt::format("--shard-group-size {} does not divide --ranks {}.", group, options.ranks));
  const std::vector<std::string> of_mesh = mesh_contradictions(options);
  problems.insert(problems.end(), of_mesh.begin(), of_mesh.end());
  return problems;
}

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
