#include "options/mesh_choice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "console/units.h"
#include "models/division_problems.h"

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

// Names the multiples of a replica next to the number of ranks.
std::string ranks_problem(const RunOptions& options) {
  const int64_t replica = options.ranks_of_replica(), fewer = options.ranks / replica * replica;
  if (options.ranks % replica == 0) return "";
  const std::string axes = fmt::format("--pipeline-parallel {} x --tensor-parallel {} = {} ranks",
                                       options.pipeline_parallel, options.tensor_parallel, replica);
  return fmt::format("{} do not divide --ranks {}. Use --ranks {}{}.", axes, options.ranks,
                     fewer > 0 ? fmt::format("{} or ", fewer) : "", fewer + replica);
}

std::string multiple_problem(const RunOptions& options) {
  const int64_t parts = options.parts(), tensor = options.tensor_parallel;
  if (parts % tensor == 0) return "";
  return fmt::format(
      "{} cannot be divided among --tensor-parallel {} ranks. Use one of {} ranks. A run keeps its parts, "
      "which decide its bits; another run may begin from its weights with --checkpoint and --tensor-parts {}.",
      counted(parts, "tensor part"), tensor, fmt::join(common_divisors({parts}, parts), ", "),
      (parts + tensor - 1) / tensor * tensor);
}

// How the model can be divided into parts, with the option that says so before each.
std::vector<std::string> parts_problems(const RunOptions& options) {
  if (const std::string problem = multiple_problem(options); !problem.empty()) return {problem};
  if (options.parts() == 1) return {};
  std::vector<std::string> problems =
      models::division_problems(options.model, {.ranks = static_cast<int>(options.tensor_parallel),
                                                .parts = static_cast<int>(options.parts()),
                                                .sequence_parallel = options.sequence_parallel});
  const char* flag = options.parts() == options.tensor_parallel ? "--tensor-parallel" : "--tensor-parts";
  for (std::string& problem : problems) problem = fmt::format("{}: {}", flag, problem);
  return problems;
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
  const bool has_pipeline = options.pipeline_parallel > 1;
  const std::string multiple = multiple_problem(options);
  check(multiple.empty(), multiple);
  check(!options.sequence_parallel || options.parts() > 1,
        "--sequence-parallel is given, and no layer is divided. Give --tensor-parallel, or --tensor-parts.");
  check(has_pipeline || options.stages == "auto",
        fmt::format("--stages {} is given without --pipeline-parallel, whose stages it is about. Use --stages auto.",
                    options.stages));
  check(has_pipeline || options.stages_per_rank == 1,
        fmt::format("--stages-per-rank {} is given without --pipeline-parallel. Use --stages-per-rank 1.",
                    options.stages_per_rank));
  check(
      options.stages_per_rank == 1 || options.pipeline_schedule != "one-forward-one-backward",
      fmt::format("--pipeline-schedule one-forward-one-backward has 1 stage per rank, and --stages-per-rank is {}. Use "
                  "--pipeline-schedule interleaved, which is the same with several.",
                  options.stages_per_rank));
  check(!options.has_mesh() || options.elastic.empty(),
        "--elastic is given with --pipeline-parallel or --tensor-parallel: fewer ranks could not hold all stages and "
        "parts. Use --max-restarts, which starts as many ranks again.");
  check(!options.is_divided() || !options.hot_restart,
        "--hot-restart is given with --pipeline-parallel, --tensor-parallel or --tensor-parts: it keeps the state of "
        "ranks that hold the "
        "whole model. Use --max-restarts with --save-every.");
  check(!has_pipeline || !options.activation_memory,
        "--activation-memory is given with --pipeline-parallel: stages hold several micro-batches at once. Use "
        "--activation-checkpoint.");
  check(!has_pipeline || !options.model_options.lora || !options.export_model,
        "--export merges the adapters of --lora into their matrices, which no rank of a pipeline has alone. Leave it "
        "out, and export afterwards: --resume RUN --ranks 1 --pipeline-parallel 1 --export.");
  return problems;
}

std::vector<std::string> mesh_problems(const RunOptions& options) {
  std::vector<std::string> problems = parts_problems(options);
  for (const std::string& problem : {ranks_problem(options), group_problem(options)}) {
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
