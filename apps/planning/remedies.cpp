#include "planning/remedies.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>

#include "console/units.h"
#include "options/contradictions.h"
#include "options/mesh_choice.h"
#include "planning/host_memory.h"

namespace trainer {

namespace {

constexpr int64_t kMostRanks = 1024;       // as --ranks has them
constexpr int64_t kShortestContext = 512;  // shorter ones are rarely what was meant
constexpr double kWorthwhile = 0.97;       // of the memory before

// The flags that make `changed` of `given`.
std::string flags_between(const RunOptions& given, const RunOptions& changed) {
  std::vector<std::string> flags;
  auto add = [&](const char* flag, const auto& before, const auto& after) {
    if (before != after) flags.push_back(fmt::format("{} {}", flag, after));
  };
  if (given.save_sync != changed.save_sync) flags.emplace_back("--save-sync");
  add("--strategy", given.strategy, changed.strategy);
  add("--shard-group-size", given.shard_group_size, changed.shard_group_size);
  add("--ranks", given.ranks, changed.ranks);
  add("--batch", given.batch, changed.batch);
  if (!given.target_tokens_per_step) add("--micro-batches", given.micro_batches, changed.micro_batches);
  add("--activation-checkpoint", given.activation_checkpoint, changed.activation_checkpoint);
  add("--offload", given.offload, changed.offload);
  if (given.cpu_offload != changed.cpu_offload) flags.emplace_back("--cpu-offload");
  add("--optimizer-state", given.optimizer_state, changed.optimizer_state);
  if (given.offload_activations != changed.offload_activations) flags.emplace_back("--offload-activations");
  add("--reduce-dtype", given.reduce_dtype, changed.reduce_dtype);
  add("--param-dtype", given.param_dtype, changed.param_dtype);
  add("--pipeline-schedule", given.pipeline_schedule, changed.pipeline_schedule);
  if (given.sequence_parallel != changed.sequence_parallel) flags.emplace_back("--sequence-parallel");
  add("--context", given.model.context, changed.model.context);
  return fmt::format("{}", fmt::join(flags, " "));
}

// A step of the way to less memory; none: there is no further one.
using Step = std::optional<RunOptions> (*)(const RunOptions&);

// The bits stay; training waits for its saves.
std::optional<RunOptions> with_waits_for_saves(const RunOptions& options) {
  if (!options.saves_beside_steps()) return std::nullopt;
  RunOptions changed = options;
  changed.save_sync = true;
  return changed;
}

std::optional<RunOptions> with_full_shard(const RunOptions& options) {
  if (options.data_ranks() == 1 || (options.strategy == "full-shard" && options.shard_group_size == 0))
    return std::nullopt;
  RunOptions changed = options;
  changed.strategy = "full-shard";
  changed.shard_group_size = 0;
  return changed;
}

// The bits stay; a rank holds as many micro-batches as there are ranks behind it.
std::optional<RunOptions> with_few_micro_batches_held(const RunOptions& options) {
  if (options.pipeline_parallel == 1 || options.pipeline_schedule != "all-forward-all-backward") return std::nullopt;
  RunOptions changed = options;
  changed.pipeline_schedule = options.stages_per_rank == 1 ? "one-forward-one-backward" : "interleaved";
  return changed;
}

// As many bytes are sent.
std::optional<RunOptions> with_divided_sequences(const RunOptions& options) {
  if (options.tensor_parallel == 1 || options.sequence_parallel) return std::nullopt;
  RunOptions changed = options;
  changed.sequence_parallel = true;
  return changed;
}

// A half where that is whole, otherwise one.
int64_t fewer(int64_t number) { return number % 2 == 0 ? number / 2 : 1; }

// A step has as many tokens in more micro-batches.
std::optional<RunOptions> with_a_smaller_batch(const RunOptions& options) {
  if (options.batch == 1) return std::nullopt;
  RunOptions changed = options;
  changed.batch = fewer(options.batch);
  changed.micro_batches *= options.batch / changed.batch;
  return changed;
}

// The bits stay; the backward computes more, up to a third of a step. A budget for activations decides itself.
std::optional<RunOptions> with_recomputation(const RunOptions& options) {
  if (options.activation_memory || options.activation_checkpoint == "all") return std::nullopt;
  RunOptions changed = options;
  changed.activation_checkpoint = options.activation_checkpoint == "none" ? "selective" : "all";
  return changed;
}

// Ranks x micro-batches of the same product compute the same.
std::optional<RunOptions> with_fewer_ranks(const RunOptions& options) {
  if (options.ranks == 1 || options.has_mesh() || options.shard_group_size != 0) return std::nullopt;
  RunOptions changed = options;
  changed.ranks = fewer(options.ranks);
  changed.micro_batches *= options.ranks / changed.ranks;
  return changed;
}

// The bits stay; a step waits for the disk.
std::optional<RunOptions> with_more_in_files(const RunOptions& options) {
  if (options.offload == "all") return std::nullopt;
  RunOptions changed = options;
  changed.offload = options.offload == "none" ? "optimizer" : "all";
  return changed;
}

// The bits are those of shards on the GPU; a step waits for the bus and the CPU.
std::optional<RunOptions> with_shards_on_host(const RunOptions& options) {
  if (options.cpu_offload) return std::nullopt;
  RunOptions changed = options;
  changed.cpu_offload = true;
  return changed;
}

std::optional<RunOptions> with_activations_in_files(const RunOptions& options) {
  if (options.offload_activations) return std::nullopt;
  RunOptions changed = options;
  changed.offload_activations = true;
  return changed;
}

std::optional<RunOptions> with_short_moments(const RunOptions& options) {
  if (options.optimizer_state == "8bit") return std::nullopt;
  RunOptions changed = options;
  changed.optimizer_state = "8bit";
  return changed;
}

std::optional<RunOptions> with_short_gradients(const RunOptions& options) {
  if (options.data_ranks() == 1 || options.reduce_dtype != "fp32") return std::nullopt;
  RunOptions changed = options;
  changed.reduce_dtype = "bf16";
  return changed;
}

std::optional<RunOptions> with_short_parameters(const RunOptions& options) {
  if (options.param_dtype != "fp32") return std::nullopt;
  RunOptions changed = options;
  changed.param_dtype = "bf16";
  return changed;
}

// Weights from elsewhere may know no other context.
std::optional<RunOptions> with_half_the_context(const RunOptions& options) {
  const bool is_even = options.model.context % 2 == 0 && options.model.context / 2 >= kShortestContext;
  if (!is_even || !options.model_options.init_from.empty()) return std::nullopt;
  RunOptions changed = options;
  changed.model.context /= 2;
  return changed;
}

constexpr std::array<Step, 14> kSteps = {with_waits_for_saves,      with_full_shard,      with_few_micro_batches_held,
                                         with_divided_sequences,    with_a_smaller_batch, with_recomputation,
                                         with_fewer_ranks,          with_more_in_files,   with_shards_on_host,
                                         with_activations_in_files, with_short_moments,   with_short_gradients,
                                         with_short_parameters,     with_half_the_context};

bool is_possible(const RunOptions& options) {
  return contradictions(options).empty() && mesh_problems(options).empty();
}

// On several hosts a launcher has decided on the ranks. On GPUs moments of 8 bits are refused, and files are for state
// that lies in the host's memory.
bool is_allowed(Step step, const RunPlan& plan) {
  if (step == with_shards_on_host) return plan.host.on_gpus;
  if (step == with_more_in_files || step == with_short_moments) return !plan.host.on_gpus;
  if (step == with_activations_in_files) return !plan.options.has_mesh();
  return step != with_fewer_ranks || plan.hosts == 1;
}

struct Reached {
  RunPlan plan;
  double bytes;
};

// As many steps of one kind as are needed or possible; steps that save nothing are left out.
Reached as_far_as_needed(Reached from, Step step, double available) {
  while (from.bytes > available) {
    const std::optional<RunOptions> changed = step(from.plan.options);
    if (!changed || !is_possible(*changed)) break;
    RunPlan plan = from.plan;
    plan.options = *changed;
    const double bytes = host_bytes(plan);
    if (bytes >= from.bytes) break;
    from = {plan, bytes};
  }
  return from;
}

// The fewest hosts, by doubling, with as many ranks each, whose memory is enough.
std::optional<Remedy> more_hosts(const Reached& from, double available) {
  RunPlan plan = from.plan;
  const int64_t ranks_of_host = plan.ranks_of_host(), group = plan.options.shard_group_size;
  if (plan.hosts > 1 || (group != 0 && ranks_of_host % group != 0)) return std::nullopt;
  for (plan.hosts = 2; plan.hosts * ranks_of_host <= kMostRanks; plan.hosts *= 2) {
    plan.options.ranks = plan.hosts * ranks_of_host;
    const double bytes = host_bytes(plan);
    const std::string change = fmt::format("{} hosts of {} each", plan.hosts, counted(ranks_of_host, "rank"));
    if (bytes <= available) return Remedy{change, bytes};
  }
  return std::nullopt;
}

Reached all_changes(Reached reached, double available) {
  const RunPlan given = reached.plan;
  for (const Step step : kSteps) {
    if (is_allowed(step, given)) reached = as_far_as_needed(reached, step, available);
  }
  return reached;
}

// Several hosts, and no more changes than they need to be enough.
std::optional<Remedy> hosts_and_changes(const Reached& now, double available) {
  const RunOptions& given = now.plan.options;
  Reached reached = now;
  for (const Step step : kSteps) {
    if (is_allowed(step, now.plan)) reached = as_far_as_needed(reached, step, available);
    std::optional<Remedy> hosts = more_hosts(reached, available);
    if (!hosts) continue;
    RunOptions others = reached.plan.options;  // the ranks are told with the hosts
    others.ranks = given.ranks;
    others.micro_batches = given.micro_batches;
    const std::string flags = flags_between(given, others);
    hosts->change += flags.empty() ? "" : fmt::format(" and {}", flags);
    return hosts;
  }
  return std::nullopt;
}

}  // namespace

std::vector<Remedy> remedies(const RunPlan& plan, double available) {
  const Reached now{plan, host_bytes(plan)};
  std::vector<Remedy> found;
  for (const Step step : kSteps) {
    const Reached then = is_allowed(step, plan) ? as_far_as_needed(now, step, available) : now;
    if (then.bytes > kWorthwhile * now.bytes) continue;
    found.push_back({flags_between(plan.options, then.plan.options), then.bytes});
  }
  if (const auto hosts = more_hosts(now, available)) found.push_back(*hosts);
  const auto is_enough = [&](const Remedy& remedy) { return remedy.bytes <= available; };
  if (std::ranges::any_of(found, is_enough)) return found;
  const Reached all = all_changes(now, available);
  const std::string flags = flags_between(plan.options, all.plan.options);
  const bool is_new = std::ranges::none_of(found, [&](const Remedy& remedy) { return remedy.change == flags; });
  if (is_new && !flags.empty()) found.push_back({flags, all.bytes});
  if (all.bytes <= available) return found;
  if (const auto hosts = hosts_and_changes(now, available)) found.push_back(*hosts);
  return found;
}

}  // namespace trainer
