#include "options/mesh_choice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "console/units.h"

namespace trainer {

namespace {

// The numbers up to `most` that divide each of `all`.
std::vector<int64_t> common_divisors(const std::vector<int64_t>& all, int64_t most) {
  std::vector<int64_t> divisors;
  for (int64_t number = 1; number <= most; ++number) {
    if (std::ranges::all_of(all, [&](int64_t one) { return one % number == 0; })) divisors.push_back(number);
  }
  return divisors;
}

// The ranks to ask for: the multiples next to those that there are.
std::string ranks_problem(const RunOptions& options) {
  const int64_t replica = options.ranks_of_replica(), fewer = options.ranks / replica * replica;
  if (options.ranks % replica == 0) return "";
  const std::string axes = fmt::format("--pipeline-parallel {} x --tensor-parallel {} = {} ranks",
                                       options.pipeline_parallel, options.tensor_parallel, replica);
  return fmt::format("{} do not divide --ranks {}. Use --ranks {}{}.", axes, options.ranks,
                     fewer > 0 ? fmt::format("{} or ", fewer) : "", fewer + replica);
}

// Heads and features of the MLP are divided into parts; a key head may be shared by some.
std::string parts_problem(const RunOptions& options) {
  const models::ModelConfig& model = options.model;
  const int64_t parts = options.parts(), mlp = model.mlp_width_or_default(),
                key_heads = model.key_value_heads_or_default();
  const auto shares = [&](int64_t count) { return key_heads % count == 0 || count % key_heads == 0; };
  std::vector<int64_t> divided = {model.heads, mlp};
  if (options.sequence_parallel) divided.push_back(model.context);
  std::vector<int64_t> possible = common_divisors(divided, model.heads);
  std::erase_if(possible, [&](int64_t count) { return !shares(count) || count > model.vocabulary; });
  if (parts == 1 || std::ranges::find(possible, parts) != possible.end()) return "";
  const std::string of_context = options.sequence_parallel ? fmt::format(", and a context of {}", model.context) : "";
  return fmt::format(
      "{} {} cannot divide a model of {}, {} for keys, an MLP of width {}, a vocabulary of {}{}. Use one of {}.",
      options.tensor_parts ? "--tensor-parts" : "--tensor-parallel", parts, counted(model.heads, "head"), key_heads,
      mlp, model.vocabulary, of_context, fmt::join(possible, ", "));
}

std::string group_problem(const RunOptions& options) {
  const int64_t group = options.shard_group_size, ranks = options.data_ranks();
  if (!options.has_mesh() || group <= 0 || ranks % group == 0) return "";
  return fmt::format("--shard-group-size {} does not divide the {} of the mesh. Use one of {}.", group,
                     counted(ranks, "data rank"), fmt::join(common_divisors({ranks}, ranks), ", "));
}

}  // namespace

std::vector<std::string> mesh_contradictions(const RunOptions& options) {
  std::vector<std::string> problems;
  const auto check = [&](bool holds, const std::string& problem) {
    if (!holds) problems.push_back(problem);
  };
  const int64_t parts = options.parts(), tensor = options.tensor_parallel;
  const bool has_pipeline = options.pipeline_parallel > 1;
  check(parts % tensor == 0, fmt::format("--tensor-parts {} is no multiple of --tensor-parallel {}. Use --tensor-parts "
                                         "{}.",
                                         parts, tensor, (parts + tensor - 1) / tensor * tensor));
  check(!options.sequence_parallel || parts > 1,
        "--sequence-parallel is given, and no layer is divided. Give --tensor-parallel, or --tensor-parts.");
  check(has_pipeline || options.stages == "auto",
        fmt::format("--stages {} is given without --pipeline-parallel, whose stages it is about.", options.stages));
  check(has_pipeline || options.stages_per_rank == 1,
        fmt::format("--stages-per-rank {} is given without --pipeline-parallel.", options.stages_per_rank));
  check(
      options.stages_per_rank == 1 || options.pipeline_schedule != "one-forward-one-backward",
      fmt::format("--pipeline-schedule one-forward-one-backward has 1 stage per rank, and --stages-per-rank is {}. Use "
                  "--pipeline-schedule interleaved, which is the same with several.",
                  options.stages_per_rank));
  check(!options.has_mesh() || options.elastic.empty(),
        "--elastic is given with --pipeline-parallel or --tensor-parallel: fewer ranks could not hold all stages and "
        "parts. Use --max-restarts, which starts as many ranks again.");
  check(
      !options.has_mesh() || !options.hot_restart,
      "--hot-restart is given with --pipeline-parallel or --tensor-parallel: it keeps the state of ranks that hold the "
      "whole model. Use --max-restarts with --save-every.");
  check(!has_pipeline || !options.activation_memory,
        "--activation-memory is given with --pipeline-parallel: stages hold several micro-batches at once. Use "
        "--activation-checkpoint.");
  return problems;
}

std::vector<std::string> mesh_problems(const RunOptions& options) {
  std::vector<std::string> problems;
  for (const std::string& problem : {ranks_problem(options), parts_problem(options), group_problem(options)}) {
    if (!problem.empty()) problems.push_back(problem);
  }
  return problems;
}

std::string mesh_text(const RunOptions& options, const std::string& places) {
  std::string text = fmt::format("{} x {} x {} ranks (data x pipeline x tensor)", options.data_ranks(),
                                 options.pipeline_parallel, options.tensor_parallel);
  if (!places.empty()) text += ", " + places;
  if (options.parts() > 1) text += fmt::format(", matrices in {} parts", options.parts());
  if (options.sequence_parallel) text += ", sequences divided";
  if (options.pipeline_parallel > 1) {
    text += fmt::format(", {} in the order {}", counted(options.stage_count(), "stage"), options.pipeline_schedule);
  }
  return text;
}

}  // namespace trainer
