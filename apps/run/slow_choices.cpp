#include "run/slow_choices.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "console/units.h"

namespace trainer {

namespace {

std::string cores_problem(const RunOptions& options, int64_t ranks, int64_t cores) {
  const std::string problem =
      fmt::format("{} share {}: they wait for each other.", counted(ranks, "rank"), counted(cores, "core"));
  const int64_t micro_batches = options.micro_batches_of_step();
  if (ranks != options.ranks || micro_batches % cores != 0 || options.has_mesh())
    return problem + " Use fewer --ranks.";
  return fmt::format("{} The same steps take less time with --ranks {} --micro-batches {}.", problem, cores,
                     micro_batches / cores);
}

// A step needs enough micro-batches to keep all stages at work.
std::string idle_problem(const RunOptions& options) {
  const int64_t ranks = options.pipeline_parallel;
  if (ranks == 1 || options.micro_batches >= ranks) return "";
  return fmt::format(
      "a pipeline of {} ranks has {} in a step: most of its ranks wait. With --micro-batches {} and a smaller --batch "
      "the same step takes less time.",
      ranks, counted(options.micro_batches, "micro-batch", "micro-batches"), 4 * ranks);
}

}  // namespace

std::vector<std::string> slow_choices(const RunOptions& options, int64_t ranks, bool is_bound,
                                      const Processor& processor) {
  std::vector<std::string> problems;
  const double available = is_bound ? static_cast<double>(processor.cores) : processor.available();
  const auto cores = std::max<int64_t>(1, std::llround(std::floor(available)));
  if (ranks > cores && available > 0) problems.push_back(cores_problem(options, ranks, cores));
  if (const std::string problem = idle_problem(options); !problem.empty()) problems.push_back(problem);
  if (options.param_dtype == "bf16" && !processor.features.empty() && !processor.multiplies_bf16()) {
    problems.emplace_back(
        "this processor has no instructions for bf16: --param-dtype bf16 saves memory here, and no time. Use "
        "--param-dtype "
        "fp32 if the memory suffices.");
  }
  return problems;
}

}  // namespace trainer
