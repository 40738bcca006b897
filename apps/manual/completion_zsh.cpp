// zsh: a function of its completion system, zshcompsys(1).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string_view>

#include "manual/completion.h"

namespace trainer {

namespace {

constexpr const char* kZshBegin = R"(#compdef <program>
# Completion of <program> for zsh, made by `<program> completion zsh`.

_<program>() {
  local command=<default>
  local -a commands=(
)";

constexpr const char* kZshHelp = R"(  if [[ $words[2] == help ]]; then
    _describe command commands
    return
  fi
)";

constexpr const char* kZshChoice = R"(  if [[ -n ${commands[(r)$words[2]:*]} ]]; then
    command=$words[2]
    words=($words[1] "${(@)words[3,-1]}")
    (( CURRENT-- ))
  fi
  case $command in
)";

// Loaded by the completion system as a function of this file, or sourced.
constexpr const char* kZshEnd = R"(  esac
}

if [[ $funcstack[1] == _<program> ]]; then
  _<program> "$@"
else
  compdef _<program> <program>
fi
)";

// Within single quotes, and without the signs that _arguments and _describe read.
std::string zsh_text(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '\'') {
      result += "'\\''";
    } else {
      if (std::string_view(":[]\\").find(c) != std::string_view::npos) result += '\\';
      result += c;
    }
  }
  return result;
}

const char* zsh_files(Paths paths) { return paths == Paths::Folders ? "_files -/" : "_files"; }

// "(bytes)", "_files -/", or both.
std::string zsh_action(const ValueHints& hints) {
  const std::string words = hints.words.empty() ? "" : fmt::format("({})", fmt::join(hints.words, " "));
  if (hints.paths == Paths::None) return words;
  const char* files = zsh_files(hints.paths);
  if (words.empty()) return files;
  return fmt::format("{{compadd - {}; {}}}", fmt::join(hints.words, " "), files);
}

std::string zsh_option(const ProgramOption& option) {
  const std::string description = zsh_text(short_description(option.text));
  const char* again = option.takes_several ? "*" : "";
  if (option.placeholder.empty()) return fmt::format("'{}{}[{}]'", again, option.flag, description);
  return fmt::format("'{}{}=[{}]:{}:{}'", again, option.flag, description, zsh_text(option.placeholder),
                     zsh_action(option.hints));
}

std::string zsh_case(const Program& program, const ProgramCommand& command) {
  std::string text =
      fmt::format("    {})\n      _arguments -S '(- *)-h[{}]' '(- *)--help[{}]'", command.word,
                  zsh_text(short_description(program.brief_help)), zsh_text(short_description(program.full_help)));
  for (const ProgramOption& option : program.options) {
    if (option.is_for(command) && !option.is_word()) text += " \\\n        " + zsh_option(option);
  }
  size_t place = 0;
  for (const ProgramWord& word : command.words) {
    const std::string which = word.takes_several ? "*" : std::to_string(++place);
    text += fmt::format(" \\\n        '{}:{}:{}'", which, word.name, zsh_action(word.hints));
  }
  return text + "\n      ;;\n";
}

std::string zsh_commands(const Program& program) {
  std::string text;
  for (const ProgramCommand& command : program.commands) {
    if (command.typing == CommandWord::NeverTyped) continue;
    text += fmt::format("    '{}:{}'\n", command.word, zsh_text(short_description(command.summary)));
  }
  if (program.help_word.empty()) return text + "  )\n";
  return text + fmt::format("    'help:{}'\n  )\n", zsh_text(short_description(program.help_word)));
}

// Commands, and files where the first word may be one.
std::string zsh_first_words(const Program& program) {
  const Paths paths = program.paths_at_first();
  std::string text = "  if (( CURRENT == 2 )) && [[ $words[2] != -* ]]; then\n";
  if (paths == Paths::None) {
    text += "    _describe command commands\n    return\n";
  } else {
    text += fmt::format(
        "    local failed=1\n    _describe command commands && failed=0\n    {} && failed=0\n    return $failed\n",
        zsh_files(paths));
  }
  return text + "  fi\n";
}

}  // namespace

std::string zsh_completion(const Program& program) {
  std::string text = kZshBegin + zsh_commands(program) + zsh_first_words(program);
  if (!program.help_word.empty()) text += kZshHelp;
  text += kZshChoice;
  for (const ProgramCommand& command : program.commands) text += zsh_case(program, command);
  return with_names(text + kZshEnd, program);
}

}  // namespace trainer
