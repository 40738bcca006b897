// fish: a line for each word that may follow (https://fishshell.com/docs/current/completions.html).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "manual/completion.h"

namespace trainer {

namespace {

constexpr const char* kFishBegin = R"(# Completion of <program> for fish, made by `<program> completion fish`.

function __<function>_is --description 'Whether the command of the line is one of these'
    set -l typed (commandline -opc)
    set -l command <default>
    if set -q typed[2]; and contains -- $typed[2] $__<function>_commands)";

constexpr const char* kFishRest = R"(
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

std::string fish_option(const ProgramOption& option) {
  return fmt::format("complete -c <program> -n '__<function>_is {}' -l {}{} -d {}\n", fmt::join(option.commands, " "),
                     option.flag.substr(2), option.placeholder.empty() ? "" : fish_value(option.hints),
                     fish_text(short_description(option.text)));
}

// As in bash, each word is offered as the first of its command.
std::string fish_words(const ProgramCommand& command) {
  if (command.words.empty()) return "";
  const ValueHints& hints = command.words.front().hints;
  return fmt::format("complete -c <program> -n '__<function>_is {}'{}{}\n", command.word,
                     hints.paths == Paths::Files ? " -F" : "", fish_choice(hints));
}

std::string fish_first_word(const std::string& word, const std::string& summary) {
  return fmt::format("complete -c <program> -n {} -a {} -d {}\n", kFishFirst, word,
                     fish_text(short_description(summary)));
}

std::string fish_commands(const Program& program) {
  const std::vector<std::string> words = program.typed_words();
  std::string text =
      fmt::format("set -g __<function>_commands {}\n\ncomplete -c <program> -f\n", fmt::join(words, " "));
  for (const ProgramCommand& command : program.commands) {
    if (command.typing != CommandWord::NeverTyped) text += fish_first_word(command.word, command.summary);
  }
  if (program.help_word.empty()) return text;
  return text + fish_first_word("help", program.help_word) +
         "complete -c <program> -n '__<function>_is help' -a \"$__<function>_commands\"\n";
}

}  // namespace

std::string fish_completion(const Program& program) {
  std::string text = std::string(kFishBegin) + (program.help_word.empty() ? "" : " help") + kFishRest;
  text += fish_commands(program);
  text += fmt::format("complete -c <program> -s h -d {}\n", fish_text(short_description(program.brief_help)));
  text += fmt::format("complete -c <program> -l help -d {}\n", fish_text(short_description(program.full_help)));
  text += "complete -c <program> -l version -d 'Shows the version'\n";
  for (const ProgramCommand& command : program.commands) text += fish_words(command);
  for (const ProgramOption& option : program.options) {
    if (!option.is_word()) text += fish_option(option);
  }
  return with_names(text, program);
}

}  // namespace trainer
