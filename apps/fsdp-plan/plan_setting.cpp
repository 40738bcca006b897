#include "fsdp-plan/plan_setting.h"

#include <fmt/format.h>

#include "console/units.h"
#include "fsdp-plan/plan_rows.h"
#include "options/mesh_choice.h"
#include "planning/plan_text.h"
#include "report/card.h"

namespace planner {

namespace {

using trainer::counted;
using trainer::grouped;
using trainer::RunOptions;

std::string sequences_text(const RunOptions& options) {
  return fmt::format("{} of {}", counted(options.batch * options.micro_batches, "sequence"),
                     counted(options.model.context, "token"));
}

std::string shape_text(const models::ModelConfig& model) {
  return fmt::format("{} of width {}, {}, a vocabulary of {}", counted(model.layers, "layer"), grouped(model.width),
                     counted(model.heads, "head"), grouped(model.vocabulary));
}

std::string batch_text(const RunOptions& options) {
  const int64_t count = options.micro_batches;
  return fmt::format("{} per rank and step{}; {} in all", sequences_text(options),
                     count > 1 ? fmt::format(", in {} micro-batches of {}", grouped(count), options.batch) : "",
                     counted(options.tokens_per_step(), "token"));
}

std::string recomputed_text(const RunOptions& options) {
  const models::Recomputation recomputation = options.recomputation();
  if (recomputation.blocks == 0) return "";
  return fmt::format("{} of {}{}", grouped(recomputation.blocks), counted(options.model.layers, "layer"),
                     recomputation.keeps_products ? ", all but the products of matrices" : "");
}

std::string offload_text(const RunOptions& options) {
  if (options.cpu_offload) return "the state, in the host's memory";
  std::string text = options.offloads() ? fmt::format("{} of the state, in files", options.offload) : "";
  if (options.offload_activations) text += text.empty() ? "activations, in files" : "; activations, in files";
  return text;
}

}  // namespace

std::string setting_sentence(const PlanArguments& arguments, const std::string& strategy) {
  return fmt::format("{}, {}, {}, {} per rank and step", ranks_text(arguments), strategy, arguments.options.param_dtype,
                     sequences_text(arguments.options));
}

std::string setting_card(const PlanArguments& arguments, const std::string& strategy) {
  const RunOptions& options = arguments.options;
  const trainer::PlanTarget& target = arguments.target;
  return trainer::facts_card(
      {{"Model", arguments.model},
       {"Shape", shape_text(options.model)},
       {"Parameters", grouped(models::parameter_numel(options.model))},
       {"Ranks", ranks_text(arguments)},
       {"Mesh", options.has_mesh() ? trainer::mesh_text(options, "") : ""},
       {"Machine", fmt::format("{}, {} per device", target.hardware.name, trainer::plan_bytes(target.memory))},
       {"Engine", target.engine},
       {"Strategy", strategy},
       {"Dtypes", fmt::format("parameters {}, reductions {}", options.param_dtype, options.reduce_dtype)},
       {"Batch", batch_text(options)},
       {"Recomputed", recomputed_text(options)},
       {"Offloaded", offload_text(options)}},
      arguments.command);
}

}  // namespace planner
