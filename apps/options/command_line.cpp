#include "options/command_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "options/configuration_file.h"
#include "options/did_you_mean.h"
#include "options/flags.h"
#include "options/frozen.h"
#include "options/help.h"
#include "options/model_choice.h"
#include "options/option_value.h"
#include "options/resolve.h"

namespace trainer {

namespace {

// Removes the command and returns it. A word that is none is a problem, and the rest is read as for `train`.
Command take_command(std::vector<std::string>& arguments, CommandLine& result) {
  if (arguments.empty() || arguments[0].starts_with('-')) return Command::Train;
  const std::string word = arguments[0];
  arguments.erase(arguments.begin());
  if (const auto command = command_named(word)) return *command;
  std::vector<std::string> words;
  for (const CommandEntry& entry : kCommands) words.push_back(entry.word);
  result.problems.push_back(
      with_hint(fmt::format("'{}' is no command of this program", word), did_you_mean(word, words)));
  return Command::Train;
}

void settle_rivals(const Rows& in_file, const Rows& in_flags, CommandLine& result) {
  for (const Rivals& rivals : rival_options()) {
    const Row& follower = *row_of(rivals.follower);
    const Row& leader = *row_of(rivals.leader);
    const bool both_flags = in_flags.contains(&follower) && in_flags.contains(&leader);
    const bool flags_say = in_flags.contains(&follower) || in_flags.contains(&leader);
    const bool together = both_flags || (!flags_say && in_file.contains(&follower) && in_file.contains(&leader));
    if (together && *rivals.why == '\0') {
      result.options.most_steps = result.options.steps;
    } else if (together) {
      result.problems.push_back(
          fmt::format("{} and {} are both given, and {}. Leave one out.", leader.flag, follower.flag, rivals.why));
    } else if (in_flags.contains(&follower) && in_file.contains(&leader)) {
      reset(leader, result.options);
    } else if (in_flags.contains(&leader) && in_file.contains(&follower)) {
      reset(follower, result.options);
    }
  }
}

struct Requirement {
  Command command;
  std::vector<const char*> flags;  // one of these
  const char* problem;
};

void check_requirements(const Rows& given, CommandLine& result) {
  static const std::vector<Requirement> requirements = {
      {Command::Train,
       {"--text", "--data", "--dry-run"},
       "--text is missing: name a file, or a folder of files, to learn from; or tokens with --data."},
      {Command::Prepare, {"--text"}, "--text is missing: name a file, or a folder of files, to turn into tokens."},
      {Command::Prepare, {"--output"}, "--output is missing: name a folder for the tokens."},
      {Command::Sample, {"--checkpoint"}, "--checkpoint is missing: name a checkpoint's folder, such as RUN/step-300."},
      {Command::Report, {"RUN"}, "no run is named: give the folder of one, or of several."}};
  for (const Requirement& requirement : requirements) {
    const bool met = std::any_of(requirement.flags.begin(), requirement.flags.end(),
                                 [&](const char* flag) { return given.contains(row_of(flag)); }) ||
                     (result.options.eval_only && !result.options.data.empty());
    if (requirement.command == result.command && !met) result.problems.push_back(requirement.problem);
  }
}

namespace fs = std::filesystem;

// The configuration in a run's folder; empty: there is none.
std::string configuration_in(const fs::path& run) {
  std::error_code ignored;
  const fs::path file = run / "config.toml";
  return fs::exists(file, ignored) ? file.string() : "";
}

// Of the run that a checkpoint is of. --eval-only takes a run as well.
std::string configuration_of(const fs::path& checkpoint) {
  const std::string inside = configuration_in(checkpoint);
  return inside.empty() ? configuration_in((checkpoint / "").parent_path().parent_path()) : inside;
}

// A model is sampled and evaluated as it was trained, unless a file says otherwise.
std::string configuration_for(Command command, const Flags& flags) {
  std::string path = flags.text_of("--config");
  const bool evaluates = command == Command::Train && !flags.text_of("--eval-only").empty();
  if ((command != Command::Sample && !evaluates) || !path.empty()) return path;
  if (const std::string checkpoint = flags.text_of("--checkpoint"); !checkpoint.empty()) {
    return configuration_of(checkpoint);
  }
  if (!evaluates || !flags.text_of("--init-from").empty()) return "";
  const std::string run = flags.text_of("--run");
  return configuration_in(run.empty() ? Options().run : run);
}

// With --eval-only, a run's configuration says how its model is made and what its data is, not where it began, nor how
// short its validations were.
void settle_evaluation(const Rows& in_flags, bool names_configuration, CommandLine& result) {
  Options& options = result.options;
  if (!options.eval_only) return;
  const auto given = [&](const char* flag) { return in_flags.contains(row_of(flag)); };
  for (const char* flag : {"--checkpoint", "--init-from"}) {
    if (!names_configuration && !given(flag)) reset(*row_of(flag), options);
  }
  if (!given("--validation-windows")) options.validation_windows = 0;
  // Data to validate with is enough.
  const bool is_other_data = given("--validation") && !given("--text") && !given("--data");
  if (!is_other_data) return;
  options.text.clear();
  options.data = options.validation;
}

void append(std::vector<std::string>& problems, const std::vector<std::string>& more) {
  problems.insert(problems.end(), more.begin(), more.end());
}

// A shape that no name stands for is saved in full with the run.
void spell_out(Options& options) {
  ModelOptions& spelled = options.model_options;
  if (!spelled.model.empty()) return;
  spelled.context = options.model.context;
  spelled.width = options.model.width;
  spelled.layers = options.model.layers;
  spelled.heads = options.model.heads;
}

}  // namespace

CommandLine parse_command_line(std::vector<std::string> arguments, int help_width) {
  CommandLine result;
  const bool without_command = arguments.empty() || arguments[0].starts_with('-');
  result.command = take_command(arguments, result);
  Flags flags(result.command);
  FlagsAnswer answer = flags.parse(std::move(arguments));
  append(result.problems, answer.problems);
  if (answer.asks_help) result.answer = help_text(result.command, without_command, help_width);
  if (!answer.version.empty()) result.answer = fmt::format("fsdp-train {}\n", answer.version);
  if (!result.answer.empty() || !answer.problems.empty()) return result;

  ConfigurationFile file;
  if (const std::string path = configuration_for(result.command, flags); !path.empty()) {
    file = read_configuration(path, result.options);
    append(result.problems, file.problems);
    result.options.config = path;
  }
  const Rows in_flags = flags.apply(result.options, result.problems);
  settle_rivals(file.given, in_flags, result);
  settle_evaluation(in_flags, !flags.text_of("--config").empty(), result);
  Rows given = file.given;
  given.insert(in_flags.begin(), in_flags.end());
  check_requirements(given, result);

  ModelChoice choice = choose_model(result.options.model_options);
  result.options.model = choice.config;
  append(result.problems, choice.problems);
  if (models::problems(choice.config).empty()) append(result.problems, freeze_problems(result.options));
  spell_out(result.options);
  append(result.problems, contradictions(result.options));
  append(result.problems, resolve(result.options, {.ranks = result.options.ranks}));
  return result;
}

}  // namespace trainer
