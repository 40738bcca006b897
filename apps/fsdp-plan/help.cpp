#include "fsdp-plan/help.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "console/paragraph.h"
#include "fsdp-plan/description.h"
#include "fsdp-plan/model_plan.h"

namespace planner {

namespace {

constexpr size_t kIndent = 16, kOptionIndent = 26;

std::string usage_of(const Command& command) {
  std::string usage = "fsdp-plan " + command.word;
  if (!command.argument.empty()) usage += " " + command.argument;
  return usage + (command.switches.empty() ? "" : " [OPTIONS]");
}

std::string name_of(const Switch& one) {
  return one.value.empty() ? one.flag : fmt::format("{} {}", one.flag, one.value);
}

}  // namespace

std::string help_text(size_t width) {
  std::string text = "Usage: fsdp-plan MODEL [OPTIONS]\n       fsdp-plan COMMAND [OPTIONS]\n" +
                     trainer::paragraph("", program().description, 0, width);
  text += "\nMODEL\n" + trainer::paragraph("", kModelHelp, 4, width);
  text += "\nCommands\n";
  for (const Command& command : commands()) text += trainer::paragraph(command.word, command.summary, kIndent, width);
  text += "\nExamples\n";
  text += kModelExamples;
  for (const Command& command : commands()) text += command.examples;
  text += "\nOptions of a plan\n";
  for (const PlanOption& option : plan_options())
    text += trainer::paragraph(fmt::format("{} {}", option.flag, option.unit), option.help, kOptionIndent, width);
  text += trainer::paragraph("--strategy all", "Compares the strategies.", kOptionIndent, width);
  text += trainer::paragraph("--json", "Prints the plan as JSON.", kOptionIndent, width);
  text += trainer::paragraph("", "And those of fsdp-train for the model, the ranks and the training.", 4, width);
  text += "\nOptions\n" + trainer::paragraph("-h, --help", program().full_help, kIndent, width);
  return text + trainer::paragraph("--version", "Shows the version.", kIndent, width);
}

std::string help_text(const Command& command, size_t width) {
  std::string text = fmt::format("Usage: {}\n", usage_of(command)) + trainer::paragraph("", command.summary, 0, width);
  const bool is_wide = std::ranges::any_of(command.switches, [](const Switch& one) { return !one.value.empty(); });
  const size_t indent = is_wide ? kOptionIndent : kIndent;
  text += "\nExamples\n" + command.examples + "\nOptions\n";
  if (!command.argument.empty()) {
    text += trainer::paragraph(command.argument, argument_help(command), indent, width);
  }
  for (const Switch& one : command.switches) text += trainer::paragraph(name_of(one), one.help, indent, width);
  return text + trainer::paragraph("-h, --help", "Shows this.", indent, width);
}

}  // namespace planner
