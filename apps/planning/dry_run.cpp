#include "planning/dry_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "console/units.h"
#include "options/frozen.h"
#include "planning/memory_plan.h"
#include "planning/model_parts.h"

namespace trainer {

namespace {

// Of all ranks they may be more than 64 bits hold.
std::string bytes(double count) {
  constexpr double kMost = 9.1e18;
  return count < kMost ? short_bytes(static_cast<size_t>(count)) : "> 9 EB";
}

// "3.12 TFLOP"
std::string operations(double count) {
  constexpr std::array<const char*, 7> kPrefixes = {"", "k", "M", "G", "T", "P", "E"};
  size_t power = 0;
  while (count >= 1000 && power + 1 < kPrefixes.size()) count /= 1000, ++power;
  return fmt::format("{:.3g} {}FLOP", count, kPrefixes[power]);
}

std::string model_text(const Options& options, const ModelParts& parts) {
  std::string text = fmt::format("parameters            {:>18}\n", grouped(parts.numel()));
  auto line = [&](const char* part, int64_t numel, const std::string& note) {
    const double share = 100.0 * static_cast<double>(numel) / static_cast<double>(parts.numel());
    text += fmt::format("  {:<20}{:>18}{:>7.1f} %{}\n", part, grouped(numel), share, note);
  };
  const bool tied = options.model.tied_embeddings;
  line("embeddings", parts.embeddings_numel, tied ? "  the head's matrix among them" : "");
  line("blocks", parts.blocks_numel,
       fmt::format("  {} of {}", options.model.layers, grouped(parts.blocks_numel / options.model.layers)));
  line("head", parts.head_numel, tied ? "  the last norm" : "  the last norm and the head's matrix");
  return text;
}

// Forward keeps these until backward; what operators take for themselves comes on top.
int64_t activation_bytes(const Options& options, const ModelParts& parts) {
  constexpr double kOfLogits = 2 * 4;  // logarithms of probabilities, and their gradient, in fp32
  constexpr double kMost = 9e18;       // for sizes that only a typing mistake has
  const double kept = static_cast<double>(parts.activation_numel) * (options.param_dtype == "fp32" ? 4 : 2);
  const auto tokens = static_cast<double>(options.batch * options.model.context);
  return static_cast<int64_t>(std::min(kMost, tokens * (kept + static_cast<double>(parts.logits) * kOfLogits)));
}

std::string memory_text(const Options& options, const ModelParts& parts) {
  const std::vector<MemoryPlan> plans = plan_memory(parts.units, planned_sharding(options));
  std::string text = fmt::format("{:<24}{:>16}{:>16}\n", "memory", "a rank, at most", "all ranks");
  auto line = [&](const char* part, auto value) {
    double most = 0, sum = 0;
    for (const MemoryPlan& plan : plans) {
      most = std::max(most, static_cast<double>(value(plan)));
      sum += static_cast<double>(value(plan));
    }
    text += fmt::format("  {:<22}{:>16}{:>16}\n", part, bytes(most), bytes(sum));
  };
  line("parameters", [](const MemoryPlan& plan) { return plan.parameters; });
  line("gradients", [](const MemoryPlan& plan) { return plan.gradients; });
  line("optimizer", [](const MemoryPlan& plan) { return plan.optimizer; });
  line("full parameters", [](const MemoryPlan& plan) { return plan.full_parameters; });
  line("full gradients", [](const MemoryPlan& plan) { return plan.full_gradients; });
  line("together", [](const MemoryPlan& plan) { return plan.total(); });
  const int64_t activations = activation_bytes(options, parts);
  line("activations, about", [&](const MemoryPlan&) { return activations; });
  text += "  for ranks of one host, which share memory; activations are an estimate\n";
  if (plans.front().copies > 0) {
    text += fmt::format("  where ranks find gathers by copies faster: {} more a rank\n",
                        bytes(static_cast<double>(plans.front().copies)));
  }
  return text;
}

std::string step_text(const Options& options, std::optional<int64_t> windows) {
  const auto tokens = static_cast<double>(options.tokens_per_step()), steps = static_cast<double>(options.steps);
  const double flops =
      models::flops_per_token(options.model, options.model.context, frozen_parameters(options)) * tokens;
  std::string text =
      fmt::format("a step                {} tokens, {}\n", grouped(options.tokens_per_step()), operations(flops));
  text += fmt::format("  {} x {} x {} x {} tokens\n", counted(options.ranks, "rank"),
                      counted(options.micro_batches, "micro-batch", "micro-batches"),
                      counted(options.batch, "sequence"), options.model.context);
  if (windows) {
    const int64_t of_a_step = options.ranks * options.micro_batches * options.batch;
    const double epoch = static_cast<double>(*windows) / static_cast<double>(of_a_step);
    text += fmt::format("an epoch              {:.1f} steps\n", epoch);
  }
  if (windows || !options.epochs) {
    text += fmt::format("the run               {} steps, {} tokens, {}\n", grouped(options.steps),
                        short_number(steps * tokens), operations(steps * flops));
  }
  return text;
}

}  // namespace

std::string dry_run_text(const Options& options, std::optional<int64_t> windows) {
  const ModelParts parts = parts_of(options.model, frozen_parameters(options));
  return fmt::format("{}\n{}\n{}\nA dry run: nothing was built or written.\n", model_text(options, parts),
                     memory_text(options, parts), step_text(options, windows));
}

}  // namespace trainer
