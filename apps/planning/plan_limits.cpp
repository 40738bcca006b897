#include "planning/plan_limits.h"

#include <fmt/format.h>

#include <functional>

#include "planning/plan_numbers.h"

namespace trainer {

namespace {

constexpr int64_t kMostBatch = int64_t{1} << 20, kMostSequence = int64_t{1} << 24, kMostDataRanks = int64_t{1} << 16;

// The largest multiple of `unit` up to `most` that holds, if all below it do.
std::optional<int64_t> largest(int64_t unit, int64_t most, const std::function<bool(int64_t)>& holds) {
  if (!holds(unit)) return std::nullopt;
  int64_t good = 1, bad = 2;  // in units
  while (bad * unit <= most && holds(bad * unit)) {
    good = bad;
    bad *= 2;
  }
  if (bad * unit > most) return good * unit;
  while (bad - good > 1) {
    const int64_t middle = good + (bad - good) / 2;
    (holds(middle * unit) ? good : bad) = middle;
  }
  return good * unit;
}

bool fits(const PlanTarget& target, const RunOptions& options) {
  return plan_fits(target, options, memory_of_plan(target, options));
}

// Changes that need less memory, the first without any.
struct ThriftyOptions {
  std::string text;
  RunOptions options;
};
std::vector<ThriftyOptions> thrifty(const RunOptions& options) {
  std::vector<ThriftyOptions> all = {{"", options}};
  ThriftyOptions divided{"", options};
  if (options.strategy != "full-shard" || options.shard_group_size > 0) {
    divided.text = " --strategy full-shard";
    divided.options.strategy = "full-shard";
    divided.options.shard_group_size = 0;
    all.push_back(divided);
  }
  for (const char* recomputation : {"selective", "all"}) {
    if (options.activation_memory || options.activation_checkpoint == recomputation) continue;
    all.push_back(divided);
    all.back().text += fmt::format(" --activation-checkpoint {}", recomputation);
    all.back().options.activation_checkpoint = recomputation;
  }
  return all;
}

std::optional<CheapestSetting> cheapest(const PlanTarget& target, const RunOptions& options) {
  const bool has_cpus = target.hardware.has_cpus();
  const int64_t most = has_cpus ? target.hosts * target.hardware.ranks_per_host : kMostDataRanks;
  std::vector<ThriftyOptions> changes = thrifty(options);
  PlanTarget tried = target;
  for (int64_t data = 1; data <= most; data *= 2) {
    const int64_t ranks = data * options.ranks_of_replica();
    if (has_cpus && ranks % target.hosts != 0) continue;
    for (ThriftyOptions& change : changes) {
      if (!has_cpus) change.options.hosts.reset();
      change.options.ranks = ranks;
      tried.hosts = hosts_of_run(change.options, target.hardware);
      if (!fits(tried, change.options)) continue;
      CheapestSetting found{.ranks = change.options.ranks,
                            .options = fmt::format("--ranks {}{}", change.options.ranks, change.text)};
      if (target.hardware.dollars_per_hour > 0)
        found.dollars_per_hour = target.hardware.dollars_per_hour * static_cast<double>(found.ranks);
      return found;
    }
  }
  return std::nullopt;
}

}  // namespace

std::string CheapestSetting::text() const {
  return dollars_per_hour ? fmt::format("{}, {:.2f} dollars per hour", options, *dollars_per_hour) : options;
}

std::optional<PlanLimits> plan_limits(const PlanTarget& target, const RunOptions& options) {
  if (target.listed != nullptr) return std::nullopt;
  const int64_t slices = options.sequence_parallel ? options.parts() : 1;
  const auto with = [&](auto change) {
    return [&, change](int64_t number) {
      RunOptions changed = options;
      change(changed, number);
      return fits(target, changed);
    };
  };
  return PlanLimits{
      .largest_batch = largest(1, kMostBatch, with([](RunOptions& run, int64_t batch) { run.batch = batch; })),
      .longest_sequence =
          largest(slices, kMostSequence, with([](RunOptions& run, int64_t tokens) { run.model.context = tokens; })),
      .cheapest = cheapest(target, options)};
}

nlohmann::json limits_json(const PlanLimits& limits) {
  nlohmann::json json = {{"largest_batch", nullptr}, {"longest_sequence", nullptr}, {"cheapest", nullptr}};
  if (limits.largest_batch) json["largest_batch"] = *limits.largest_batch;
  if (limits.longest_sequence) json["longest_sequence"] = *limits.longest_sequence;
  if (!limits.cheapest) return json;
  nlohmann::json cheapest = {
      {"ranks", limits.cheapest->ranks}, {"options", limits.cheapest->options}, {"dollars_per_hour", nullptr}};
  if (limits.cheapest->dollars_per_hour) cheapest["dollars_per_hour"] = *limits.cheapest->dollars_per_hour;
  json["cheapest"] = cheapest;
  return json;
}

}  // namespace trainer
