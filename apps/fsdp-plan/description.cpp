#include "fsdp-plan/description.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "fsdp-plan/commands.h"

namespace planner {

namespace {

std::vector<trainer::ProgramCommand> program_commands() {
  std::vector<trainer::ProgramCommand> all;
  for (const Command& command : commands()) {
    trainer::ProgramCommand entry{
        .word = command.word, .usages = {command.argument}, .summary = command.summary, .examples = command.examples};
    if (!command.switches.empty()) entry.usages[0] += command.argument.empty() ? "[OPTIONS]" : " [OPTIONS]";
    if (!command.argument.empty())
      entry.words.push_back({.name = command.argument, .hints = {.words = command.values}});
    all.push_back(std::move(entry));
  }
  return all;
}

std::vector<trainer::ProgramOption> program_options() {
  std::vector<trainer::ProgramOption> all;
  for (const Command& command : commands()) {
    if (!command.argument.empty()) {
      all.push_back({.flag = command.argument, .text = argument_help(command), .commands = {command.word}});
    }
    for (const Switch& one : command.switches)
      all.push_back({.flag = one.flag,
                     .placeholder = one.value,
                     .text = one.help,
                     .hints = {.paths = one.value == "FILE" ? trainer::Paths::Files : trainer::Paths::None},
                     .commands = {command.word}});
  }
  std::vector<std::string> of_plans;
  for (const Command& command : commands()) {
    if (command.plan != nullptr) of_plans.push_back(command.word);
  }
  for (const PlanOption& one : plan_options())
    all.push_back({.flag = one.flag,
                   .placeholder = one.unit,
                   .text = one.help,
                   .hints = {.paths = one.is_path ? trainer::Paths::Files : trainer::Paths::None},
                   .commands = of_plans});
  return all;
}

trainer::PageSection program_codes() {
  return {.title = "EXIT STATUS",
          .items = {{"0", "All went well."},
                    {"1", "It failed while it worked, or standard output could not take the result."},
                    {"2", "The command line is wrong. All problems are listed."},
                    {"128 + N", "Signal N ended it: 130 after Ctrl-C."}}};
}

}  // namespace

const trainer::Program& program() {
  static const trainer::Program all = {
      .name = "fsdp-plan",
      .summary = "says before a training what it will need",
      .description =
          "fsdp-plan computes the memory and the traffic of a training before it runs. It needs neither the "
          "model nor the machine.",
      .commands = program_commands(),
      .brief_help = "Stands for --help.",
      .full_help = "Shows all commands, and after a command its options.",
      .options_note = "Each option names its command in parentheses, unless it is of the first.",
      .options = program_options(),
      .sections = {program_codes()}};
  return all;
}

}  // namespace planner
