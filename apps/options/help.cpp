#include "options/help.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "console/paragraph.h"
#include "options/option_text.h"

namespace trainer {

namespace {

std::string option_paragraph(const std::string& left, const std::string& text, int width) {
  constexpr size_t kIndent = 26;
  return paragraph(left, text, kIndent, static_cast<size_t>(width));
}

// "--steps STEPS", "RUN..."
std::string named(const Row& row) {
  const std::string value = placeholder(row);
  return fmt::format("{}{}{}{}", row.flag, value.empty() ? "" : " ", value, row.takes_several() ? "..." : "");
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
  std::string text = is_short ? "Options (most used)\n" : "";
  std::string title;
  for (const Row& row : option_rows()) {
    if (!row.is_for(command) || (is_short && !is_most_used(row, command))) continue;
    if (!is_short && title != row.title) {
      title = row.title;
      text += row.in_file() ? fmt::format("{} [{}]\n", title, row.section) : title + "\n";
    }
    text += option_paragraph(named(row), described(row), form.width);
  }
  return text;
}

}  // namespace

std::string help_text(Command command, const HelpForm& form) {
  const CommandEntry& entry = entry_of(command);
  const bool has_options = std::ranges::any_of(option_rows(), [&](const Row& row) { return row.is_for(command); });
  std::string text;
  if (form.all_commands) {
    text = fmt::format("fsdp-train trains language models, sharded over the ranks of a job.\n\n{}",
                       list_of_commands(form.width));
  }
  text += fmt::format("Usage: fsdp-train {}{}{}\n{}\n\nExamples\n{}\n", entry.word, *entry.usage == '\0' ? "" : " ",
                      entry.usage, entry.summary, entry.examples);
  if (!has_options) return text.substr(0, text.size() - 1);
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
