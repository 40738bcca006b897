#include "options/help.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <type_traits>

#include "console/paragraph.h"
#include "options/option_value.h"

namespace trainer {

namespace {

std::string option_paragraph(const std::string& left, const std::string& text, int width) {
  constexpr size_t kIndent = 26;
  return paragraph(left, text, kIndent, static_cast<size_t>(width));
}

// The value's, by its type and unit: " STEPS", " A..B".
std::string placeholder(const Row& row) {
  return std::visit(
      [&](auto target) -> std::string {
        using Member = decltype(target);
        if constexpr (std::is_same_v<Member, bool Options::*>) return "";
        if constexpr (std::is_same_v<Member, std::optional<bool> ModelOptions::*>) return " true|false";
        if constexpr (std::is_same_v<Member, std::optional<StepRange> Options::*>) return " A..B";
        if constexpr (std::is_same_v<Member, std::vector<std::string> Options::*>) return "...";
        return fmt::format(" {}", row.unit);
      },
      row.target);
}

std::string described(const Row& row) {
  std::string text = row.description;
  if (const auto* allowed = std::get_if<Words>(&row.check)) {
    text += fmt::format(" One of {}.", fmt::join(*allowed, ", "));
  }
  if (row.is_switch()) return text;
  const Options defaults{};
  const std::optional<Scalar> value = value_of(row, defaults);
  const std::string shown_default = *row.shown_default != '\0' || !value ? row.shown_default : shown(*value);
  return shown_default.empty() ? text : fmt::format("{} [{}]", text, shown_default);
}

// The options of the short help; a command that has few shows all.
bool is_most_used(const Row& row, Command command) {
  static const std::vector<std::string_view> train = {"--text",           "--data",       "--model", "--context",
                                                      "--ranks",          "--steps",      "--batch", "--lr",
                                                      "--validate-every", "--save-every", "--run",   "--resume"};
  static const std::vector<std::string_view> sample = {"--checkpoint",  "--prompt", "--sample-length",
                                                       "--temperature", "--top-k",  "--seed"};
  if (command != Command::Train && command != Command::Sample) return true;
  const auto& most_used = command == Command::Train ? train : sample;
  return std::ranges::find(most_used, row.flag) != most_used.end();
}

std::string list_of_commands(int width) {
  std::string text = "Commands\n";
  for (const CommandEntry& entry : kCommands) text += option_paragraph(entry.word, entry.summary, width);
  return text + "`fsdp-train COMMAND -h` explains each.\n\n";
}

std::string options_of(Command command, const HelpForm& form) {
  const bool is_short = form.length == HelpLength::Short;
  std::string text = is_short ? "Options, those that are most used\n" : "";
  std::string title;
  for (const Row& row : option_rows()) {
    if (!row.is_for(command) || (is_short && !is_most_used(row, command))) continue;
    if (!is_short && title != row.title) {
      title = row.title;
      text += row.in_file() ? fmt::format("{} [{}]\n", title, row.section) : title + "\n";
    }
    text += option_paragraph(fmt::format("{}{}", row.flag, placeholder(row)), described(row), form.width);
  }
  return text;
}

}  // namespace

std::string help_text(Command command, const HelpForm& form) {
  const CommandEntry& entry = entry_of(command);
  std::string text;
  if (form.all_commands) {
    text = fmt::format("fsdp-train trains language models, sharded over the ranks of a job.\n\n{}",
                       list_of_commands(form.width));
  }
  text += fmt::format("Usage: fsdp-train {} {}\n{}\n\nExamples\n{}\n", entry.word, entry.usage, entry.summary,
                      entry.examples);
  text += options_of(command, form);
  if (form.length == HelpLength::Short) {
    return text + fmt::format("\nfsdp-train {} --help lists all options.\n", entry.word);
  }
  text += "\nOther\n";
  text += option_paragraph("-h", "Shows the options that are most used.", form.width);
  text += option_paragraph("--help", "Shows all options.", form.width);
  text += option_paragraph("--version", "Shows the version.", form.width);
  return text +
         "\nDefaults are in [brackets]. Numbers may be written as 2_000, 16k or 1.5M:\n"
         "k is a thousand, M a million, G a billion, T a trillion.\n";
}

}  // namespace trainer
