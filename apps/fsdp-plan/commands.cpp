#include "fsdp-plan/commands.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fsdp/error.h>

#include <algorithm>
#include <utility>

#include "files/durable_file.h"
#include "fsdp-plan/calibrate.h"
#include "fsdp-plan/description.h"
#include "fsdp-plan/scaling_arguments.h"
#include "fsdp-plan/scaling_command.h"
#include "fsdp-plan/search_arguments.h"
#include "fsdp-plan/search_text.h"
#include "manual/completion.h"
#include "manual/man_page.h"
#include "options/did_you_mean.h"
#include "options/options.h"
#include "planning/textbook_text.h"

namespace planner {

namespace {

std::string textbook_result(const Given& given, size_t width) {
  const std::vector<trainer::TextbookTopic> topics = trainer::textbook();
  return given.has("--json") ? trainer::textbook_json(topics) : trainer::textbook_text(topics, width);
}

std::string calibration_result(const Given& given, size_t) {
  const Calibration calibration = calibrate(calibrating_program(), given.has("--quick"));
  if (!calibration.problem.empty()) throw fsdp::Error(calibration.problem);
  if (!given.has("--output")) return calibration.text;
  const std::string& file = given.switches.at("--output");
  fsdp::files::write_durably(file, calibration.text);
  return fmt::format("This host is measured. A plan for it: fsdp-plan gpt2 --hardware {}\n", file);
}

// Returns how many words it took.
size_t read_option(const Command& command, std::span<const std::string> words, Given& given) {
  const std::string& word = words.front();
  if (word == "-h" || word == "--help") {
    given.asks_for_help = true;
    return 1;
  }
  std::vector<std::string> known = {"--help"};
  for (const Switch& one : command.switches) known.push_back(one.flag);
  const size_t equals = word.find('=');
  const std::string flag = word.substr(0, equals);
  const auto found = std::ranges::find(command.switches, flag, &Switch::flag);
  if (found == command.switches.end()) {
    given.problems.push_back(trainer::with_hint(fmt::format("'{}' is no option of fsdp-plan {}", flag, command.word),
                                                trainer::did_you_mean(flag, known)));
    return 1;
  }
  const bool is_next = equals == std::string::npos && !found->value.empty() && words.size() > 1;
  const std::string value = equals != std::string::npos ? word.substr(equals + 1) : is_next ? words[1] : "";
  if (found->value.empty() && equals != std::string::npos) {
    given.problems.push_back(fmt::format("{} takes no value.", flag));
  } else if (!found->value.empty() && value.empty()) {
    given.problems.push_back(fmt::format("{} needs a value: {} {}.", flag, flag, found->value));
  } else {
    given.switches[flag] = value;
  }
  return is_next ? 2 : 1;
}

void read_argument(const Command& command, const std::string& word, Given& given) {
  if (command.argument.empty()) {
    given.problems.push_back(fmt::format("'{}' is one word too many: {} takes none.", word, command.word));
  } else if (!given.word.empty()) {
    given.problems.push_back(fmt::format("'{}' is one word too many: {} is given already.", word, command.argument));
  } else {
    given.word = word;
    if (std::ranges::find(command.values, word) == command.values.end()) {
      given.problems.push_back(
          fmt::format("{} is '{}'; it must be one of {}.", command.argument, word, fmt::join(command.values, ", ")));
    }
  }
}

}  // namespace

std::string argument_help(const Command& command) {
  if (command.values.empty()) return "As for fsdp-plan MODEL, with its options.";
  return fmt::format("One of {}.", fmt::join(command.values, ", "));
}

std::span<const Command> commands() {
  static const std::vector<Command> all = {
      {.word = "search",
       .summary = "Finds the fastest or cheapest setting that fits into the memory of the devices: mesh, pipeline "
                  "schedule, strategy, micro-batches, recomputation and prefetch. Says why the next ones lose.",
       .examples = "  fsdp-plan search llama3-8b --ranks 64 --batch 8 --param-dtype bf16\n"
                   "  fsdp-plan search llama3-8b --ranks 64,128 --tokens 300B --for money\n",
       .switches = search_switches(),
       .argument = "MODEL",
       .plan = search_plan},
      {.word = "compare",
       .summary = "Shows the strategies, and the numbers of ranks that share the state, beside each other.",
       .examples = "  fsdp-plan compare llama3-8b --ranks 64 --param-dtype bf16\n",
       .switches = {{"--json", "Prints the plans as JSON."}},
       .argument = "MODEL",
       .plan = compare_plans},
      {.word = "scaling",
       .summary = "Shows how fast each rank trains as a job grows to 100,000 ranks, for each strategy, with slow ranks "
                  "and failures; says where the curves bend and why. Compares few large hosts with many small ones.",
       .examples = "  fsdp-plan scaling llama3-8b --param-dtype bf16 --batch 1\n"
                   "  fsdp-plan scaling llama3-8b --param-dtype bf16 --batch 1 --global-batch 2048\n",
       .switches = scaling_switches(),
       .argument = "MODEL",
       .plan = scaling_plan},
      {.word = "calibrate",
       .summary = "Measures this host in about a minute, and prints it as a machine for --hardware: products of "
                  "matrices, operators and their fixed costs, exchanges between ranks, and steps of small models. Let "
                  "nothing else run meanwhile.",
       .examples = "  fsdp-plan calibrate --output this-host.toml\n"
                   "  fsdp-plan gpt2 --ranks 2 --hardware this-host.toml\n",
       .switches = {{"--output", "Writes the machine into this file, and does not print it.", "FILE"},
                    {"--quick", "Takes seconds, and measures roughly: to try it, and for no plan that counts."}},
       .text = calibration_result},
      {.word = "textbook",
       .summary = "Shows the figures that courses and papers give for the memory and the traffic of training, beside "
                  "ours, with the reason where they differ.",
       .examples = "  fsdp-plan textbook\n"
                   "  fsdp-plan textbook --json > textbook.json\n",
       .switches = {{"--json", "Prints the rows as JSON."}},
       .text = textbook_result},
      {.word = "completion",
       .summary = "Prints a script that lets a shell complete commands, options and their values.",
       .examples = "  fsdp-plan completion bash >> ~/.bashrc\n"
                   "  fsdp-plan completion fish > ~/.config/fish/completions/fsdp-plan.fish\n",
       .argument = "SHELL",
       .values = {trainer::kShells.begin(), trainer::kShells.end()},
       .text = [](const Given& given, size_t) { return trainer::completion_script(given.word, program()); }},
      {.word = "man",
       .summary = "Prints the manual page.",
       .examples = "  fsdp-plan man | man -l -\n",
       .text = [](const Given&, size_t) { return trainer::man_page(program()); }}};
  return all;
}

std::vector<std::string> command_words() {
  std::vector<std::string> words;
  for (const Command& command : commands()) words.push_back(command.word);
  return words;
}

Given read_words(const Command& command, const std::vector<std::string>& words) {
  Given given;
  for (size_t i = 0; i < words.size();) {
    if (words[i].starts_with('-')) {
      i += read_option(command, std::span(words).subspan(i), given);
    } else {
      read_argument(command, words[i++], given);
    }
  }
  if (!command.argument.empty() && given.word.empty() && given.problems.empty()) {
    given.problems.push_back(
        fmt::format("{} is missing: give one of {}.", command.argument, fmt::join(command.values, ", ")));
  }
  return given;
}

}  // namespace planner
