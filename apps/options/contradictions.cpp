#include "options/contradictions.h"

#include <fmt/format.h>

#include <utility>

#include "options/mesh_choice.h"
#include "options/plan_choice.h"
#include "options/rank_range.h"

namespace trainer {

namespace {

class Problems {
 public:
  void check(bool holds, std::string problem) {
    if (!holds) all.push_back(std::move(problem));
  }
  void add(const std::vector<std::string>& some) { all.insert(all.end(), some.begin(), some.end()); }

  std::vector<std::string> all;
};

void check_training(const RunOptions& options, Problems& problems) {
  problems.check(
      !options.decay_steps || options.schedule == "wsd",
      fmt::format("--decay-steps is given, and --schedule {} does not wait before it falls. Use --schedule wsd.",
                  options.schedule));
  problems.check(
      options.patience == 0 || options.validate_every > 0,
      fmt::format("--patience {} counts validations, and there is none before the end. Give --validate-every.",
                  options.patience));
  problems.check(!options.json || options.eval_only, "--json is given without --eval-only, whose result it is about.");
  const StepRange traced = options.trace_steps.value_or(StepRange());
  problems.check(
      options.profile.empty() || traced.last - traced.first < kMostProfiledSteps,
      fmt::format("--profile is given with --trace-steps {}..{}, more than {} steps, and a profile holds them all in "
                  "memory. Name fewer steps.",
                  traced.first, traced.last, kMostProfiledSteps));
  problems.check(!options.muon_lr || options.optimizer == "muon",
                 fmt::format("--muon-lr is given, and --optimizer is {}.", options.optimizer));
}

void check_dry_run(const RunOptions& options, Problems& problems) {
  problems.check(options.ranks <= kMostRanksOfJob || options.dry_run,
                 fmt::format("--ranks {} is more than a job here has, which is {}. --dry-run plans larger ones.",
                             options.ranks, kMostRanksOfJob));
  problems.check(!options.memory || options.dry_run, "--memory is given without --dry-run, which compares with it.");
  problems.check(!options.hosts || options.dry_run, "--hosts is given without --dry-run, which plans for them.");
  problems.check(!options.hosts || options.ranks <= 1 || options.ranks % *options.hosts == 0,
                 fmt::format("--hosts {} does not divide --ranks {}, and each host has equally many.",
                             options.hosts.value_or(1), options.ranks));
  problems.check(!options.peak_flops || options.dry_run,
                 "--peak-flops is given without --dry-run, which tells the time by it.");
  problems.check(!options.eval_only || !options.dry_run, "--eval-only and --dry-run are both given. Leave one out.");
}

void check_saves(const RunOptions& options, Problems& problems) {
  problems.check(!options.export_best || options.export_model, "--export-best is given without --export.");
  problems.check(
      !options.export_best || options.keeps_best(),
      "--export-best is given, and no best checkpoint is kept. Give --validate-every, and leave out --no-best and "
      "--no-save.");
  problems.check(!options.no_strict || !options.checkpoint.empty() || !options.model_options.init_from.empty(),
                 "--no-strict is given without --checkpoint or --init-from, whose weights it is about.");
  problems.check(!options.no_save || (options.save_every == 0 && options.save_minutes.value_or(0) == 0),
                 "--no-save is given with --save-every or --save-minutes. Leave out one of them.");
}

void check_activations(const RunOptions& options, Problems& problems) {
  problems.check(options.offload_directory.empty() || options.offloads() || options.offload_activations,
                 "--offload-directory is given, and --offload is none. Give --offload optimizer, --offload all or "
                 "--offload-activations.");
  problems.check(
      !options.activation_memory || !options.offload_activations,
      "--activation-memory and --offload-activations are both given: the budget is for activations that stay in "
      "memory. Leave one out.");
  problems.check(!options.offloads() || !options.eval_only || !options.offload_directory.empty(),
                 "--offload is given with --eval-only, which has no run's folder. Give --offload-directory as well.");
  const int64_t recomputed = options.recomputation().blocks;
  problems.check(recomputed <= options.model.layers,
                 fmt::format("--activation-checkpoint is {}, expected at most {}, the number of layers. Use all.",
                             recomputed, options.model.layers));
  problems.check(
      !options.activation_memory || options.activation_checkpoint == "none",
      fmt::format("--activation-memory and --activation-checkpoint {} are both given, and the first decides what the "
                  "layers keep. Leave one out.",
                  options.activation_checkpoint));
}

void check_restarts(const RunOptions& options, Problems& problems) {
  problems.check(!options.no_save || options.restarts() == 0 || options.hot_restart,
                 "--no-save is given with --max-restarts or --elastic, which go on from a checkpoint. Leave one out.");
  problems.check(options.restarts() > 0 || !options.hot_restart,
                 "--hot-restart is given with --max-restarts 0, which starts nothing again. Leave one out.");
  problems.check(
      !options.hot_restart || (!options.offloads() && !options.offload_activations),
      "--hot-restart and --offload or --offload-activations are both given: the first keeps the state in memory, the "
      "others in files. Leave one out.");
  problems.check(
      !options.hot_restart || options.elastic.empty(),
      "--hot-restart and --elastic are both given: what ranks left in memory is for as many ranks. Leave one out.");
  problems.check(
      options.elastic.empty() || options.shard_group_size == 0,
      "--shard-group-size is given with --elastic: the groups of fewer ranks would be others. Leave it out.");
}

void check_groups(const RunOptions& options, Problems& problems) {
  const int64_t group = options.shard_group_size;
  problems.check(options.strategy != "no-shard" || group <= 1,
                 fmt::format("--shard-group-size is {} with --strategy no-shard, which shards nothing.", group));
  // Under a launcher --ranks stays at 1 and the launcher's number counts; `shard` compares with that.
  problems.check(options.ranks <= 1 || group <= 0 || options.has_mesh() || options.ranks % group == 0,
                 fmt::format("--shard-group-size {} does not divide --ranks {}.", group, options.ranks));
}

}  // namespace

std::vector<std::string> contradictions(const RunOptions& options) {
  Problems problems;
  for (const auto check : {check_training, check_dry_run, check_saves, check_activations, check_restarts, check_groups})
    check(options, problems);
  problems.add(mesh_contradictions(options));
  problems.add(plan_contradictions(options));
  return problems.all;
}

}  // namespace trainer
