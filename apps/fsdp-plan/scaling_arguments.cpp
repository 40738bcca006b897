#include "fsdp-plan/scaling_arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "options/numbers.h"

namespace planner {

namespace {

using fsdp::plan::ClusterFacts;

constexpr double kHour = 3600, kMost = 1e12;
constexpr int64_t kMostRanks = 1 << 20, kMostSequences = 1'000'000'000;

struct NumberOption {
  PlanOption option;
  double lowest, highest;
  bool is_whole;
  void (*set)(trainer::ScalingSettings& settings, double value);
  const char* range;  // for messages
};

using Settings = trainer::ScalingSettings;

const std::array<NumberOption, 8>& number_options() {
  static const std::array<NumberOption, 8> all = {
      {{{"--most-ranks", "RANKS", "Ranks of the largest job. 100,000 by default."},
        1,
        kMostRanks,
        true,
        [](Settings& settings, double value) { settings.most_ranks = static_cast<int64_t>(value); },
        "a whole number from 1 to 1,048,576"},
       {{"--global-batch", "SEQUENCES",
         "Sequences of a step, whatever the number of ranks (strong scaling). By default each rank keeps its batch "
         "(weak scaling)."},
        1,
        kMostSequences,
        true,
        [](Settings& settings, double value) { settings.global_batch = static_cast<int64_t>(value); },
        "a whole number from 1 to 1e9"},
       {{"--devices", "DEVICES",
         "Devices of the comparison of few large hosts with many small ones. 1,024 by default."},
        1,
        kMostRanks,
        true,
        [](Settings& settings, double value) { settings.devices = static_cast<int64_t>(value); },
        "a whole number from 1 to 1,048,576"},
       {{"--spread", "SHARE", "Deviation of the ranks' computation times, as a share of their mean. 0.02 by default."},
        0,
        0.999,
        false,
        [](Settings& settings, double value) { settings.cluster.spread = value; },
        "a number from 0 to 0.999"},
       {{"--rank-mtbf", "HOURS",
         "Mean time between failures of a rank; inf for none. 86,000 by default, from the training of Llama 3."},
        1e-3,
        INFINITY,
        false,
        [](Settings& settings, double value) { settings.cluster.rank_failures = value * kHour; },
        "a number of at least 0.001, or inf"},
       {{"--host-mtbf", "HOURS",
         "Mean time between failures of a host, beside those of its ranks; inf for none. 15,000 by default, from the "
         "training of Llama 3."},
        1e-3,
        INFINITY,
        false,
        [](Settings& settings, double value) { settings.cluster.host_failures = value * kHour; },
        "a number of at least 0.001, or inf"},
       {{"--save-seconds", "SECONDS", "Time for which a checkpoint stops the training. 10 by default."},
        0,
        kMost,
        false,
        [](Settings& settings, double value) { settings.cluster.save = value; },
        "a number from 0 to 1e12"},
       {{"--restart-seconds", "SECONDS",
         "Time from a failure until the training continues from the newest checkpoint. 600 by default."},
        0,
        kMost,
        false,
        [](Settings& settings, double value) { settings.cluster.restart = value; },
        "a number from 0 to 1e12"}}};
  return all;
}

void set_number(const NumberOption& row, const std::string& text, ScalingArguments& arguments) {
  const std::optional<double> value = trainer::number_in(text);
  const bool is_in_range = value && *value >= row.lowest && *value <= row.highest;
  if (!is_in_range || (row.is_whole && *value != std::floor(*value))) {
    arguments.problems.push_back(fmt::format("{} is '{}'; it must be {}.", row.option.flag, text, row.range));
    return;
  }
  row.set(arguments.settings, *value);
}

// Returns the other words.
std::vector<std::string> take_numbers(const std::vector<std::string>& words, ScalingArguments& arguments) {
  std::vector<std::string> others;
  std::vector<std::string> taken;
  for (size_t i = 0; i < words.size(); ++i) {
    const size_t equals = words[i].find('=');
    std::string flag = words[i].substr(0, equals);
    std::ranges::replace(flag, '_', '-');
    const auto row =
        std::ranges::find_if(number_options(), [&](const NumberOption& one) { return flag == one.option.flag; });
    if (row == number_options().end()) {
      others.push_back(words[i]);
    } else if (equals == std::string::npos && i + 1 == words.size()) {
      arguments.problems.push_back(fmt::format("{} needs a value.", flag));
    } else {
      const std::string value = equals == std::string::npos ? words[++i] : words[i].substr(equals + 1);
      if (std::ranges::find(taken, flag) != taken.end())
        arguments.problems.push_back(fmt::format("{} is given twice.", flag));
      taken.push_back(flag);
      set_number(*row, value, arguments);
    }
  }
  return others;
}

void check_run(ScalingArguments& arguments) {
  const trainer::RunOptions& options = arguments.plan.options;
  const auto refuse = [&](const char* flag) {
    arguments.problems.push_back(
        fmt::format("{} has no place here, because the number of ranks varies. Give --most-ranks for the largest job, "
                    "or --devices for the comparison of hosts.",
                    flag));
  };
  if (options.chosen.flags.contains("--ranks")) refuse("--ranks");
  if (options.hosts) refuse("--hosts");
  if (!arguments.plan.page_file.empty())
    arguments.problems.emplace_back("scaling has no page: leave out --html, and take --json for the points.");
  if (arguments.plan.target.engine == "megatron" || options.has_mesh())
    arguments.problems.emplace_back(
        "scaling is simulated for engines that divide the data. Leave out --pipeline-parallel, --tensor-parallel and "
        "--engine megatron.");
}

// DDP has one.
std::vector<std::string> strategies_of(const PlanArguments& plan) {
  if (plan.options.chosen.flags.contains("--strategy") && !plan.all_strategies) return {plan.options.strategy};
  if (plan.target.engine == "ddp") return {"no-shard"};
  return {trainer::kStrategies.begin(), trainer::kStrategies.end()};
}

}  // namespace

std::vector<Switch> scaling_switches() {
  std::vector<Switch> all;
  for (const NumberOption& row : number_options())
    all.push_back({.flag = row.option.flag, .help = row.option.help, .value = row.option.unit});
  all.push_back({.flag = "--json", .help = "Prints all points of the curves as JSON."});
  return all;
}

ScalingArguments read_scaling(const std::vector<std::string>& words) {
  ScalingArguments arguments;
  const std::vector<std::string> others = take_numbers(words, arguments);
  if (others.empty()) {
    arguments.problems.emplace_back("a model is missing: fsdp-plan scaling MODEL.");
    return arguments;
  }
  arguments.plan = read_plan(others, "scaling");
  require_shape("scaling", arguments.plan);
  const PlanArguments& plan = arguments.plan;
  arguments.problems.insert(arguments.problems.end(), plan.problems.begin(), plan.problems.end());
  check_run(arguments);
  arguments.strategies = strategies_of(plan);
  // The constants of the hardware were measured on its hosts.
  arguments.settings.cluster.measured_ranks = plan.target.hardware.ranks_per_host;
  return arguments;
}

}  // namespace planner
