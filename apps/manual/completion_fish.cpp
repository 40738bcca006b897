// fish: a line for each word that may follow (https://fishshell.com/docs/current/completions.html).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "manual/completion.h"
#include "manual/value_hints.h"

namespace trainer {

namespace {

constexpr const char* kFishBegin = R"(# Completion of fsdp-train for fish, made by `fsdp-train completion fish`.

function __fsdp_train_is --description 'Whether the command of the line is one of these'
    set -l typed (commandline -opc)
    set -l command train
    if set -q typed[2]; and contains -- $typed[2] $__fsdp_train_commands help
        set command $typed[2]
    end
    contains -- $command $argv
end

)";

constexpr const char* kFishFirst = "'test (count (commandline -opc)) -eq 1'";

std::string fish_text(const std::string& text) {
  std::string result = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') result += '\\';
    result += c;
  }
  return result + "'";
}

std::string fish_choice(const ValueHints& hints) {
  std::vector<std::string> words = hints.words;
  if (hints.paths == Paths::Folders) words.emplace_back("(__fish_complete_directories)");
  return words.empty() ? "" : fmt::format(" -a {}", fish_text(fmt::format("{}", fmt::join(words, " "))));
}

// -x: a value and no files; -r -F: a value, and files.
std::string fish_value(const ValueHints& hints) {
  return (hints.paths == Paths::Files ? " -r -F" : " -x") + fish_choice(hints);
}

std::string fish_commands_of(const Row& row) {
  std::string commands;
  for (const CommandEntry& entry : kCommands) {
    if (row.is_for(entry.command)) commands += std::string(" ") + entry.word;
  }
  return commands;
}

std::string fish_option(const Row& row) {
  return fmt::format("complete -c fsdp-train -n '__fsdp_train_is{}' -l {}{} -d {}\n", fish_commands_of(row),
                     row.flag + 2, row.is_switch() ? "" : fish_value(hints_of(row)),
                     fish_text(short_description(row.description)));
}

std::string fish_words(const CommandEntry& entry) {
  const Row* row = row_of_words(entry.command);
  if (row == nullptr) return "";
  return fmt::format("complete -c fsdp-train -n '__fsdp_train_is {}'{}\n", entry.word, fish_choice(hints_of(*row)));
}

}  // namespace

std::string fish_completion() {
  std::string text = kFishBegin;
  std::vector<std::string> commands;
  for (const CommandEntry& entry : kCommands) commands.emplace_back(entry.word);
  text += fmt::format("set -g __fsdp_train_commands {}\n\ncomplete -c fsdp-train -f\n", fmt::join(commands, " "));
  for (const CommandEntry& entry : kCommands) {
    text += fmt::format("complete -c fsdp-train -n {} -a {} -d {}\n", kFishFirst, entry.word,
                        fish_text(short_description(entry.summary)));
  }
  text += fmt::format("complete -c fsdp-train -n {} -a help -d 'Explains a command'\n", kFishFirst);
  text +=
      "complete -c fsdp-train -n '__fsdp_train_is help' -a \"$__fsdp_train_commands\"\n"
      "complete -c fsdp-train -s h -d 'Shows the options that are most used'\n"
      "complete -c fsdp-train -l help -d 'Shows all options'\n"
      "complete -c fsdp-train -l version -d 'Shows the version'\n";
  for (const CommandEntry& entry : kCommands) text += fish_words(entry);
  for (const Row& row : option_rows()) {
    if (!row.takes_words()) text += fish_option(row);
  }
  return text;
}

}  // namespace trainer
