#include "options/plan_choice.h"

#include <fmt/format.h>
#include <fsdp/error.h>

#include <array>
#include <filesystem>
#include <sstream>
#include <utility>

#include "options/configuration_file.h"
#include "options/option_value.h"

namespace trainer {

namespace fs = std::filesystem;

namespace {

// The options of planning/search_setting.h, in its order.
constexpr std::array kPlanned = {
    "--pipeline-parallel", "--pipeline-schedule", "--stages-per-rank", "--tensor-parallel", "--sequence-parallel",
    "--strategy",          "--shard-group-size",  "--batch",           "--micro-batches",   "--activation-checkpoint",
    "--layers-per-unit",   "--prefetch",          "--buffers"};

using FlagValue = std::pair<const Row*, std::string>;  // of a switch there is no value

std::vector<FlagValue> values_in(const std::string& flags) {
  std::vector<FlagValue> values;
  std::istringstream words(flags);
  for (std::string flag, value; words >> flag; value.clear()) {
    const Row* row = row_of(flag);
    if (row == nullptr) throw fsdp::Error(fmt::format("'{}' is no option of fsdp-train.", flag));
    if (!row->is_switch()) words >> value;
    values.emplace_back(row, value);
  }
  return values;
}

void add(std::string& flags, const Row& row, const std::string& value) {
  flags += fmt::format("{}{}{}{}", flags.empty() ? "" : " ", row.flag, value.empty() ? "" : " ", value);
}

}  // namespace

std::vector<std::string> plan_contradictions(const RunOptions& options) {
  if (options.plan.empty()) return {};
  std::vector<std::string> problems;
  const auto check = [&](bool holds, const char* problem) {
    if (!holds) problems.emplace_back(problem);
  };
  check(!options.eval_only, "--plan is given with --eval-only, which has no steps. Leave one out.");
  check(options.elastic.empty(),
        "--plan is given with --elastic: a setting that fits many ranks may not fit fewer. Use --max-restarts, or give "
        "the options that --dry-run --plan shows for the fewest ranks.");
  check(!options.offloads() && !options.cpu_offload && !options.offload_activations,
        "--plan is given with --offload, --cpu-offload or --offload-activations, whose time is not simulated. Leave "
        "--plan or these out.");
  check(!options.activation_memory,
        "--plan and --activation-memory are both given, and each decides what the layers keep. Leave one out.");
  return problems;
}

std::string free_flags(const std::string& flags, const RunOptions& options) {
  std::string free;
  for (const auto& [row, value] : values_in(flags)) {
    if (!options.chosen.flags.contains(row->flag)) add(free, *row, value);
  }
  return free;
}

RunOptions with_flags(const RunOptions& options, const std::string& flags) {
  AllOptions all;
  static_cast<RunOptions&>(all) = options;
  for (const auto& [row, value] : values_in(flags)) {
    const std::string problem = assign(*row, all, row->is_switch() ? Scalar(true) : scalar_of(*row, value));
    if (!problem.empty()) throw fsdp::Error(row->flag + problem);
    all.chosen.flags.insert(row->flag);
    if (row->flag == std::string("--micro-batches")) all.target_tokens_per_step.reset();
  }
  return all;
}

std::string recorded_flags(const RunOptions& options) {
  const fs::path path = fs::path(options.run) / "config.toml";
  std::error_code ignored;
  if (options.run.empty() || !fs::exists(path, ignored)) return "";
  AllOptions recorded;
  const ConfigurationFile file = read_configuration(path.string(), recorded);
  if (!file.problems.empty()) throw fsdp::Error(file.problems.front());
  std::string flags;
  for (const char* flag : kPlanned) {
    const Row& row = *row_of(flag);
    const std::optional<Scalar> value = value_of(row, recorded);
    const bool is_free = file.given.contains(&row) && !options.chosen.flags.contains(flag);
    if (is_free && value && value != Scalar(false)) add(flags, row, row.is_switch() ? "" : shown(*value));
  }
  return flags;
}

}  // namespace trainer
