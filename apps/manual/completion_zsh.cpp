// zsh: a function of its completion system, zshcompsys(1).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "manual/completion.h"
#include "manual/value_hints.h"
#include "options/option_text.h"

namespace trainer {

namespace {

constexpr const char* kZshBegin = R"(#compdef fsdp-train
# Completion of fsdp-train for zsh, made by `fsdp-train completion zsh`.

_fsdp-train() {
  local command=train
  local -a commands=(
)";

constexpr const char* kZshChoice = R"(  )
  if (( CURRENT == 2 )) && [[ $words[2] != -* ]]; then
    _describe command commands
    return
  fi
  if [[ $words[2] == help ]]; then
    _describe command commands
    return
  fi
  if [[ -n ${commands[(r)$words[2]:*]} ]]; then
    command=$words[2]
    words=($words[1] "${(@)words[3,-1]}")
    (( CURRENT-- ))
  fi
  case $command in
)";

// Loaded by the completion system as a function of this file, or sourced.
constexpr const char* kZshEnd = R"(  esac
}

if [[ $funcstack[1] == _fsdp-train ]]; then
  _fsdp-train "$@"
else
  compdef _fsdp-train fsdp-train
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

// "(bytes)", "_files -/", or both.
std::string zsh_action(const ValueHints& hints) {
  const std::string words = hints.words.empty() ? "" : fmt::format("({})", fmt::join(hints.words, " "));
  if (hints.paths == Paths::None) return words;
  const char* files = hints.paths == Paths::Files ? "_files" : "_files -/";
  if (words.empty()) return files;
  return fmt::format("{{compadd - {}; {}}}", fmt::join(hints.words, " "), files);
}

std::string zsh_option(const Row& row) {
  const std::string description = zsh_text(short_description(row.description));
  if (row.is_switch()) return fmt::format("'{}[{}]'", row.flag, description);
  return fmt::format("'{}=[{}]:{}:{}'", row.flag, description, zsh_text(placeholder(row)), zsh_action(hints_of(row)));
}

std::string zsh_case(const CommandEntry& entry) {
  std::string text = fmt::format(
      "    {})\n      _arguments -S '(- *)-h[Shows the options that are most used]' "
      "'(- *)--help[Shows all options]'",
      entry.word);
  for (const Row& row : option_rows()) {
    if (row.is_for(entry.command) && !row.takes_words()) text += " \\\n        " + zsh_option(row);
  }
  if (const Row* row = row_of_words(entry.command)) {
    const std::string name = row->takes_words() ? row->flag : "place";
    text += fmt::format(" \\\n        '{}:{}:{}'", row->takes_several() ? "*" : "1", name, zsh_action(hints_of(*row)));
  }
  return text + "\n      ;;\n";
}

}  // namespace

std::string zsh_completion() {
  std::string text = kZshBegin;
  for (const CommandEntry& entry : kCommands) {
    text += fmt::format("    '{}:{}'\n", entry.word, zsh_text(short_description(entry.summary)));
  }
  text += "    'help:Explains a command'\n";
  text += kZshChoice;
  for (const CommandEntry& entry : kCommands) text += zsh_case(entry);
  return text + kZshEnd;
}

}  // namespace trainer
