#include "planning/assumed.h"

#include <fmt/format.h>

#include "console/units.h"
#include "planning/plan_text.h"

namespace trainer {

namespace {

// A run that goes on has its own configuration, which no flag names.
bool is_of_run(const CommandLine& line) { return !line.options.config.empty() && !line.asks("--config"); }

bool says_steps(const CommandLine& line) { return line.asks("--steps") || line.asks("--epochs"); }

}  // namespace

std::string assumed_text(const RunOptions& options, const CommandLine& line) {
  if (is_of_run(line)) return "";
  std::string text;
  auto add = [&](const char* name, bool is_given, const std::string& value, const char* flag) {
    if (!is_given) text += plan_line(name, fmt::format("{}; {} sets another", value, flag));
  };
  const bool names_model = !options.model_options.model.empty();
  add("model", names_model || line.asks("--width") || line.asks("--layers"), "a small GPT-2", "--model");
  add("context", line.asks("--context"),
      fmt::format("{}{}", counted(options.model.context, "token"), names_model ? ", the model's own" : ""),
      "--context");
  constexpr int64_t kBytes = 256;  // of a model that takes its tokenizer's vocabulary
  const bool is_to_be_encoded = options.tokenizer != "bytes" && options.model.vocabulary == kBytes;
  add("vocabulary", line.asks("--vocabulary") || !is_to_be_encoded, fmt::format("{} tokens, for bytes", kBytes),
      "--vocabulary");
  // --plan has chosen some.
  const auto is_chosen = [&](const char* flag) { return line.asks(flag) || options.chosen.flags.contains(flag); };
  add("batch", is_chosen("--batch"), fmt::format("{} per rank and micro-batch", counted(options.batch, "sequence")),
      "--batch");
  const bool is_launched = options.ranks != line.options.ranks;  // by a launcher, which says how many
  add("ranks", line.asks("--ranks") || is_launched, fmt::format("{}", options.ranks), "--ranks");
  add("strategy", is_chosen("--strategy") || options.ranks == 1, options.strategy, "--strategy");
  add("dtype", line.asks("--param-dtype"), options.param_dtype, "--param-dtype");
  add("steps", says_steps(line), grouped(options.steps), "--steps");
  return text.empty() ? text : fmt::format("not given, so assumed\n{}\n", text);
}

std::string planned_text(const RunOptions& options) {
  const PlannedOptions& planned = options.planned;
  if (planned.figures.empty()) return "";
  return fmt::format("planned\n{}{}\n", plan_line("options", planned.flags.empty() ? "none" : planned.flags),
                     plan_line("", planned.figures));
}

}  // namespace trainer
