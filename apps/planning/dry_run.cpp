#include "planning/dry_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "console/units.h"
#include "planning/activation_text.h"
#include "planning/fit.h"
#include "planning/host_memory.h"
#include "planning/mesh_text.h"
#include "planning/plan_text.h"
#include "planning/planned_activations.h"
#include "planning/run_time.h"

namespace trainer {

namespace {

std::string model_text(const RunOptions& options, const ModelParts& parts) {
  std::string text = fmt::format("parameters            {:>18}\n", grouped(parts.numel()));
  auto line = [&](const char* part, int64_t numel, const std::string& note) {
    const double share = 100.0 * static_cast<double>(numel) / static_cast<double>(parts.numel());
    text += fmt::format("  {:<20}{:>18}{:>7.1f} %{}\n", part, grouped(numel), share, note);
  };
  const bool tied = options.model.tied_embeddings;
  line("embeddings", parts.embeddings_numel, tied ? "  the head's matrix among them" : "");
  line("blocks", parts.blocks_numel,
       fmt::format("  {} of {}", options.model.layers, grouped(parts.blocks_numel / options.model.layers)));
  line("head", parts.head_numel, tied ? "  the last norm" : "  and the last norm");
  return text;
}

// The likely outcome of the budget for activations.
std::string activation_text(const RunPlan& plan) {
  const std::optional<double> budget = plan.options.activation_memory;
  if (!budget) return "";
  const double bytes = planned_activations(plan.options, plan.host.on_gpus).in_memory;
  if (bytes > *budget) {
    return plan_line("recomputation", fmt::format("{} are less than the least, {}: each layer keeps its input alone. "
                                                  "Take more --activation-memory, or a smaller --batch",
                                                  plan_bytes(*budget), plan_bytes(bytes)));
  }
  return plan_line(
      "recomputation",
      fmt::format("{}, if products take {:.0f} % of a layer's time; the first step measures it",
                  activation_plan_text(budgeted_activations(plan.options, plan.host.on_gpus)), 100 * kProductShare));
}

std::string memory_text(const RunPlan& plan, const ModelParts& parts) {
  const HostMemory memory = host_memory(plan, parts);
  const char* scope = plan.hosts == 1 ? "all ranks" : "per host";
  const char* where = plan.host.on_gpus ? "memory of GPUs" : "memory";
  std::string text = fmt::format("{:<24}{:>16}{:>16}\n", where, "per rank at most", scope);
  auto line = [&](const char* part, double most, double sum) {
    text += fmt::format("  {:<22}{:>16}{:>16}\n", part, plan_bytes(most), plan_bytes(sum));
  };
  auto part = [&](const char* name, auto value) {
    double most = 0, sum = 0;
    for (const fsdp::plan::StateMemory& rank : memory.model) {
      most = std::max(most, static_cast<double>(value(rank)));
      sum += static_cast<double>(value(rank));
    }
    line(name, most, sum);
  };
  part("parameters", [](const fsdp::plan::StateMemory& rank) { return rank.parameters; });
  part("gradients", [](const fsdp::plan::StateMemory& rank) { return rank.gradients; });
  part("optimizer", [](const fsdp::plan::StateMemory& rank) { return rank.optimizer; });
  part("full parameters", [](const fsdp::plan::StateMemory& rank) { return rank.full_parameters; });
  part("full gradients", [](const fsdp::plan::StateMemory& rank) { return rank.full_gradients; });
  if (plan.options.offloads()) {
    part("of these, in files", [](const fsdp::plan::StateMemory& rank) { return rank.offloaded; });
    part("and in memory again", [](const fsdp::plan::StateMemory& rank) { return rank.resident; });
  }
  if (memory.model.front().on_host > 0)
    part("of these, on the host", [](const fsdp::plan::StateMemory& rank) { return rank.on_host; });
  part("together", [](const fsdp::plan::StateMemory& rank) { return rank.total(); });
  if (memory.model.front().save_copy > 0)
    part("copy for saves", [](const fsdp::plan::StateMemory& rank) { return rank.save_copy; });
  const auto ranks = static_cast<double>(memory.model.size());
  line("activations", memory.activations, ranks * memory.activations);
  if (plan.options.offload_activations)
    line("activations in files", memory.offloaded_activations, ranks * memory.offloaded_activations);
  line("other tensors, about", memory.temporary, ranks * memory.temporary);
  if (!plan.host.on_gpus)
    line("program and LibTorch", memory.process + memory.program, ranks * memory.process + memory.program);
  line("in all, about", memory.largest_rank(), memory.total());
  if (memory.model.front().copies > 0) {
    text += fmt::format("  where ranks find gathers by copies faster: {} more per rank\n",
                        plan_bytes(static_cast<double>(memory.model.front().copies)));
  }
  text += activation_text(plan);
  if (plan.host.on_gpus) return text;
  const std::string hosts = plan.hosts == 1 ? "ranks of one host, which share memory"
                                            : fmt::format("{} hosts of {} that share memory", plan.hosts,
                                                          counted(plan.ranks_of_host(), "rank"));
  return text + fmt::format("  for {}\n", hosts);
}

std::string step_text(const RunPlan& plan) {
  const RunOptions& options = plan.options;
  const double flops = flops_of_step(options);
  std::string text =
      fmt::format("a step                {} tokens, {}\n", grouped(options.tokens_per_step()), operations(flops));
  text += fmt::format("  {} x {} x {} x {} tokens\n",
                      counted(options.data_ranks(), options.has_mesh() ? "data rank" : "rank"),
                      counted(options.micro_batches, "micro-batch", "micro-batches"),
                      counted(options.batch, "sequence"), options.model.context);
  if (plan.windows) {
    const double epoch = static_cast<double>(*plan.windows) / static_cast<double>(options.step_shape().windows());
    text += fmt::format("an epoch              {:.1f} steps\n", epoch);
  }
  if (knows_steps(plan)) {
    const auto steps = static_cast<double>(options.steps);
    text +=
        fmt::format("the run               {} steps, {} tokens, {}\n", grouped(options.steps),
                    short_number(steps * static_cast<double>(options.tokens_per_step())), operations(steps * flops));
  }
  return text;
}

}  // namespace

std::string memory_table(const RunPlan& plan) {
  if (plan.options.has_mesh()) return mesh_memory_text(plan);
  return memory_text(plan, parts_of(plan.options));
}

std::string dry_run_text(const RunPlan& plan) {
  const ModelParts parts = parts_of(plan.options);
  const std::string time = time_text(plan);
  const std::string mesh =
      plan.options.has_mesh() ? fmt::format("{}\n{}\n", mesh_overview(plan), mesh_traffic_text(plan)) : "";
  return fmt::format("{}\n{}{}\n{}\n{}{}{}\nA dry run: nothing was built or written.\n",
                     model_text(plan.options, parts), mesh, memory_table(plan), fit_text(plan), step_text(plan),
                     time.empty() ? "" : "\n", time);
}

}  // namespace trainer
