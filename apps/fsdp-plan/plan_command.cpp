#include "fsdp-plan/plan_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fsdp/version.h>

#include <algorithm>
#include <filesystem>

#include "console/terminal.h"
#include "console/units.h"
#include "files/durable_file.h"
#include "fsdp-plan/commands.h"
#include "fsdp-plan/help.h"
#include "fsdp-plan/model_plan.h"
#include "models/model_sizes.h"
#include "options/did_you_mean.h"

namespace planner {

namespace {

constexpr int kUsageProblem = 2;  // the exit code

int refuse(const std::vector<std::string>& problems, const std::string& command) {
  std::string text = fmt::format("fsdp-plan: {}\n", trainer::counted(static_cast<int64_t>(problems.size()), "problem"));
  for (const std::string& problem : problems) text += fmt::format("  {}\n", problem);
  trainer::print_error(text + fmt::format("fsdp-plan {}--help lists all options.\n", command));
  return kUsageProblem;
}

int answer(const std::string& text) {
  trainer::print(text);
  return 0;
}

int answer(const ModelPlan& plan) {
  if (!plan.problems.empty()) return refuse(plan.problems, "");
  if (!plan.page_file.empty()) fsdp::files::write_durably(plan.page_file, plan.page);
  return answer(plan.text);
}

// Near to a command, and neither a model's name nor a file.
bool is_mistyped(const std::string& word) {
  std::error_code ignored;
  return !trainer::did_you_mean(word, command_words()).empty() && !models::config_of_size(word) &&
         !std::filesystem::exists(word, ignored);
}

int refuse_command(const std::string& word) {
  const std::vector<std::string> known = command_words();
  const std::string all = fmt::format("{}", fmt::join(known, ", "));
  if (word.empty())
    return refuse({fmt::format("no model and no command is given, expected a model or one of {}.", all)}, "");
  return refuse({trainer::with_hint(fmt::format("'{}' is no command of this program, expected one of {}", word, all),
                                    trainer::did_you_mean(word, known))},
                "");
}

int run(const Command& command, const std::vector<std::string>& words, size_t width) {
  const bool asks_for_help =
      std::ranges::any_of(words, [](const std::string& word) { return word == "-h" || word == "--help"; });
  if (command.plan != nullptr && !asks_for_help) {
    if (words.empty()) return refuse({fmt::format("a model is missing: fsdp-plan {} MODEL.", command.word)}, "");
    return answer(command.plan(words, width));
  }
  const Given given = read_words(command, words);
  if (given.asks_for_help) return answer(help_text(command, width));
  if (!given.problems.empty()) return refuse(given.problems, fmt::format("{} ", command.word));
  return answer(command.text(given, width));
}

}  // namespace

int plan_command(const std::vector<std::string>& words, size_t width) {
  const std::string first = words.empty() ? "" : words.front();
  if (first == "-h" || first == "--help") return answer(help_text(width));
  if (first == "--version") return answer(fmt::format("fsdp-plan {}\n", FSDP_VERSION_STRING));
  for (const Command& command : commands()) {
    if (command.word == first) return run(command, {words.begin() + 1, words.end()}, width);
  }
  if (first.empty() || first.starts_with('-') || is_mistyped(first)) return refuse_command(first);
  return answer(plan_model(words, width));
}

}  // namespace planner
