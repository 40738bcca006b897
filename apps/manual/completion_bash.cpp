// bash: a function that fills COMPREPLY
// (https://www.gnu.org/software/bash/manual/html_node/Programmable-Completion.html).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

#include "manual/completion.h"
#include "manual/value_hints.h"

namespace trainer {

namespace {

// Where one offers nothing, `-o default` lets bash offer files, but after `compopt +o default`.
constexpr const char* kBashHelpers = R"(# Completion of fsdp-train for bash, made by `fsdp-train completion bash`.

_fsdp_train_words() { mapfile -t COMPREPLY < <(compgen -W "$1" -- "$2"); }

_fsdp_train_paths() {  # -f: files and folders; -d: folders
  local found
  compopt -o filenames 2>/dev/null
  mapfile -t found < <(compgen "$1" -- "$2")
  COMPREPLY+=("${found[@]}")
}

)";

// At --flag=value bash has three words, and two before the value is typed.
constexpr const char* kBashBegin = R"(_fsdp_train() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command=train
  COMPREPLY=()
  if [[ $word == = ]]; then
    word=
  elif [[ $before == = ]]; then
    before=${COMP_WORDS[COMP_CWORD - 2]}
  fi
)";

constexpr const char* kBashEnd = R"(}
complete -o default -F _fsdp_train fsdp-train
)";

std::string offer(const ValueHints& hints) {
  std::string text;
  if (!hints.words.empty()) text += fmt::format("_fsdp_train_words '{}' \"$word\"; ", fmt::join(hints.words, " "));
  if (hints.paths == Paths::None) return text + "compopt +o default 2>/dev/null";
  return text + fmt::format("_fsdp_train_paths {} \"$word\"", hints.paths == Paths::Files ? "-f" : "-d");
}

std::string flags_for(Command command) {
  std::string flags = "--help";
  for (const Row& row : option_rows()) {
    if (row.is_for(command) && !row.takes_words()) flags += std::string(" ") + row.flag;
  }
  return flags + (command == Command::Train ? " --version" : "");
}

// The values of options, those that are offered alike together.
std::string cases_of_values() {
  std::map<std::string, std::vector<std::string>> flags;
  for (const Row& row : option_rows()) {
    if (!row.is_switch() && !row.takes_words()) flags[offer(hints_of(row))].emplace_back(row.flag);
  }
  std::string text = "  case $before in\n";
  for (const auto& [offered, names] : flags) {
    text += fmt::format("    {})\n      {}\n      return\n      ;;\n", fmt::join(names, " | "), offered);
  }
  return text + "  esac\n";
}

std::string words_for(const CommandEntry& entry) {
  const Row* row = row_of_words(entry.command);
  if (row == nullptr) return "";
  return fmt::format("      [[ $word == -* ]] || {{ {}; return; }}\n", offer(hints_of(*row)));
}

std::string cases_of_commands() {
  std::string text = "  case $command in\n";
  for (const CommandEntry& entry : kCommands) {
    text += fmt::format("    {})\n{}      _fsdp_train_words '{}' \"$word\"\n      ;;\n", entry.word, words_for(entry),
                        flags_for(entry.command));
  }
  return text + "  esac\n  compopt +o default 2>/dev/null\n";
}

}  // namespace

std::string bash_completion() {
  std::vector<std::string> commands;
  for (const CommandEntry& entry : kCommands) commands.emplace_back(entry.word);
  std::string text = std::string(kBashHelpers) + kBashBegin;
  text += fmt::format("  local commands='{}'\n", fmt::join(commands, " "));
  text +=
      "  if ((COMP_CWORD == 1)) && [[ $word != -* ]]; then\n"
      "    _fsdp_train_words \"$commands help\" \"$word\"\n    return\n  fi\n"
      "  if [[ ${COMP_WORDS[1]} == help ]]; then\n"
      "    _fsdp_train_words \"$commands\" \"$word\"\n    return\n  fi\n"
      "  [[ \" $commands \" == *\" ${COMP_WORDS[1]} \"* ]] && command=${COMP_WORDS[1]}\n";
  return text + cases_of_values() + cases_of_commands() + kBashEnd;
}

}  // namespace trainer
