#include "options/command_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "options/configuration_file.h"
#include "options/contradictions.h"
#include "options/did_you_mean.h"
#include "options/first_weights.h"
#include "options/flags.h"
#include "options/frozen.h"
#include "options/help.h"
#include "options/model_choice.h"
#include "options/option_paths.h"
#include "options/option_value.h"
#include "options/resolve.h"
#include "options/run_choice.h"
#include "options/sample_choice.h"
#include "options/synonyms.h"
#include "options/training_defaults.h"

namespace trainer {

namespace {

// The command line that `word` stands for, with the path that follows it: "fsdp-train --resume run-1" for `resume
// run-1` and for `run-1`; empty: none.
std::string line_meant(const std::string& word, const std::vector<std::string>& rest) {
  const bool names_one = !rest.empty() && !rest[0].starts_with('-');
  if (const std::string options = options_meant(word); !options.empty()) {
    return fmt::format("fsdp-train {} {}", options, names_one ? rest[0] : "RUN");
  }
  const std::string option = command_meant(word).empty() ? path_meant(word) : "";
  return option.empty() ? "" : "fsdp-train " + option;
}

// Removes the command and returns it. A word that is none is a problem. The rest is read as for `train`; none: it has
// another meaning.
std::optional<Command> take_command(std::vector<std::string>& arguments, CommandLine& result) {
  if (arguments.empty() || arguments[0].starts_with('-')) return Command::Train;
  const std::string word = arguments[0];
  arguments.erase(arguments.begin());
  if (const auto command = command_named(word)) return command;
  const std::string meant = line_meant(word, arguments);
  const std::string problem = fmt::format("'{}' is no command of this program", word);
  result.problems.push_back(with_hint(problem, meant.empty() ? command_meant(word) : meant));
  return meant.empty() ? std::optional(Command::Train) : std::nullopt;
}

// `fsdp-train help` and `fsdp-train help sample` are what -h and `fsdp-train sample -h` are.
void take_help(std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments[0] != "help") return;
  arguments.erase(arguments.begin());
  arguments.emplace_back("-h");
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
      {Command::Sample,
       {"--checkpoint"},
       "--checkpoint is missing: name a run, a checkpoint's folder such as RUN/step-300, or an exported model."},
      {Command::Report, {"RUN"}, "no run is named: give the folder of one, or of several."},
      {Command::Completion, {"SHELL"}, "no shell is named: give bash, zsh or fish."}};
  for (const Requirement& requirement : requirements) {
    const bool met = std::any_of(requirement.flags.begin(), requirement.flags.end(),
                                 [&](const char* flag) { return given.contains(row_of(flag)); }) ||
                     (result.options.eval_only && !result.options.data.empty());
    if (requirement.command == result.command && !met) result.problems.push_back(requirement.problem);
  }
}

// The configuration to evaluate with: that of the run that a checkpoint is of, or of the run that is named.
std::string configuration_to_evaluate(const Flags& flags) {
  if (const std::string checkpoint = flags.text_of("--checkpoint"); !checkpoint.empty()) {
    return configuration_of_run(checkpoint);
  }
  return flags.text_of("--init-from").empty() ? configuration_of_run(flags.text_of("--run")) : "";
}

// A model is sampled and evaluated, and a run goes on, as it was trained, unless a file says otherwise.
std::string configuration_for(Command command, const Flags& flags) {
  const std::string path = flags.text_of("--config");
  if (!path.empty()) return path;
  if (command == Command::Sample) return configuration_to_sample(flags.text_of("--checkpoint"));
  if (command == Command::Train && !flags.text_of("--eval-only").empty()) return configuration_to_evaluate(flags);
  const std::string resume = flags.text_of("--resume");
  return resume == "auto" || resume == "never" ? "" : configuration_of_run(resume);
}

// An exported model has its own shape, and threads are those of this machine.
void settle_sample(CommandLine& line) {
  RunOptions& options = line.options;
  if (!line.asks("--threads")) options.threads = 0;
  const bool is_exported = sample_form(options.checkpoint) == SampleForm::Exported;
  if (is_exported && !line.asks("--model")) options.model_options.model = options.checkpoint;
}

// A folder that the file names is of no use where the flags leave nothing for it.
void settle_offload_directory(const Rows& in_flags, RunOptions& options) {
  const bool is_used = options.offloads() || options.offload_activations;
  const bool changes = in_flags.contains(row_of("--offload")) || in_flags.contains(row_of("--offload-activations"));
  if (changes && !is_used && !in_flags.contains(row_of("--offload-directory"))) options.offload_directory.clear();
}

// With --eval-only, a run's configuration says how its model is made and what its data is, not where it began, nor how
// short its validations were.
void settle_evaluation(const Rows& in_flags, bool names_configuration, CommandLine& result) {
  AllOptions& options = result.options;
  if (!options.eval_only) return;
  const auto given = [&](const char* flag) { return in_flags.contains(row_of(flag)); };
  for (const char* flag : {"--checkpoint", "--init-from"}) {
    if (!names_configuration && !given(flag)) reset(*row_of(flag), options);
  }
  if (!given("--validation-windows")) options.validation_windows = 0;
  // There is no optimizer, and no run's folder for the model.
  if (!given("--offload") && (options.offload == "optimizer" || options.offload_directory.empty())) {
    options.offload = "none";
    if (!given("--offload-directory")) options.offload_directory.clear();
  }
  // Data to validate with is enough.
  const bool is_other_data = given("--validation") && !given("--text") && !given("--data");
  if (!is_other_data) return;
  options.text.clear();
  options.data = options.validation;
}

// The options given in the file and by the flags.
Choices choices_of(const ConfigurationFile& file, const Rows& in_flags, const AllOptions& options) {
  Choices chosen;
  for (const Row* row : file.given) chosen.flags.insert(row->flag);
  for (const Row* row : file.relative) chosen.relative.insert(row->flag);
  for (const Row* row : in_flags) {
    if (!row->in_file()) continue;
    const std::optional<Scalar> value = value_of(*row, options);
    const auto* text = value ? std::get_if<std::string>(&*value) : nullptr;
    chosen.flags.insert(row->flag);
    chosen.relative.erase(row->flag);
    if (text != nullptr && names_relative_path(*row, *text)) chosen.relative.insert(row->flag);
  }
  return chosen;
}

void append(std::vector<std::string>& problems, const std::vector<std::string>& more) {
  problems.insert(problems.end(), more.begin(), more.end());
}

}  // namespace

CommandLine parse_command_line(std::vector<std::string> arguments, int help_width, Asking asking) {
  CommandLine result;
  take_help(arguments);
  const bool without_command = arguments.empty() || arguments[0].starts_with('-');
  const std::optional<Command> command = take_command(arguments, result);
  if (!command) return result;
  result.command = *command;
  Flags flags(result.command);
  FlagsAnswer answer = flags.parse(std::move(arguments));
  append(result.problems, answer.problems);
  if (answer.help != AskedHelp::None) {
    const HelpLength length = answer.help == AskedHelp::Full ? HelpLength::Full : HelpLength::Short;
    result.answer = help_text(result.command, {.all_commands = without_command, .length = length, .width = help_width});
  }
  if (!answer.version.empty()) result.answer = fmt::format("fsdp-train {}\n", answer.version);
  if (!result.answer.empty() || !answer.problems.empty()) return result;

  ConfigurationFile file;
  if (const std::string path = configuration_for(result.command, flags); !path.empty()) {
    file = read_configuration(path, result.options);
    append(result.problems, file.problems);
    result.options.config = path;
    if (!file.relative.empty()) result.options.config_paths = file.paths;
  }
  const RunOptions before = result.options;
  const Rows in_flags = flags.apply(result.options, result.problems);
  result.options.chosen = choices_of(file, in_flags, result.options);
  settle_rivals(file.given, in_flags, result);
  settle_resume(in_flags, result);
  settle_step(in_flags, before, result.options);
  result.asked_for = in_flags;
  if (!flags.text_of("--config").empty()) result.asked_for.insert(file.given.begin(), file.given.end());
  if (result.command == Command::Sample) settle_sample(result);
  settle_offload_directory(in_flags, result.options);
  settle_evaluation(in_flags, !flags.text_of("--config").empty(), result);
  Rows given = file.given;
  given.insert(in_flags.begin(), in_flags.end());
  settle_first_weights(given, result);
  check_requirements(given, result);

  ModelChoice choice = choose_model(result.options.model_options);
  result.options.model = choice.config;
  append(result.problems, choice.problems);
  if (asking == Asking::Trainer && models::is_for_plans_alone(choice.config.family)) {
    result.problems.push_back(
        fmt::format("--model: {} is known to fsdp-plan alone; fsdp-train trains GPT-2 and Llama models.",
                    result.options.model_options.model));
  }
  if (models::problems(choice.config).empty()) append(result.problems, freeze_problems(result.options));
  fill_training_defaults(result.options);
  spell_out(result.options.model, result.options.model_options);
  append(result.problems, contradictions(result.options));
  append(result.problems, resolve(result.options, {.ranks = result.options.ranks}));
  return result;
}

}  // namespace trainer
