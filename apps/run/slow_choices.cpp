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
  if (ranks != options.ranks || micro_batches % cores != 0) return problem + " Use fewer --ranks.";
  return fmt::format("{} The same steps take less time with --ranks {} --micro-batches {}.", problem, cores,
                     micro_batches / cores);
}

}  // namespace

std::vector<std::string> slow_choices(const RunOptions& options, int64_t ranks, bool is_bound,
                                      const Processor& processor) {
  std::vector<std::string> problems;
  const double available = is_bound ? static_cast<double>(processor.cores) : processor.available();
  const auto cores = std::max<int64_t>(1, std::llround(std::floor(available)));
  if (ranks > cores && available > 0) problems.push_back(cores_problem(options, ranks, cores));
  if (options.param_dtype == "bf16" && !processor.features.empty() && !processor.multiplies_bf16()) {
    problems.emplace_back(
        "this processor has no instructions for bf16: --param-dtype bf16 saves memory here, and no time. Use "
        "--param-dtype "
        "fp32 if the memory suffices.");
  }
  return problems;
}

}  // namespace trainer
