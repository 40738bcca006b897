// bash: a function that fills COMPREPLY
// (https://www.gnu.org/software/bash/manual/html_node/Programmable-Completion.html).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

#include "manual/completion.h"

namespace trainer {

namespace {

// Where one offers nothing, `-o default` lets bash offer files, but after `compopt +o default`.
constexpr const char* kBashHelpers = R"(# Completion of <program> for bash, made by `<program> completion bash`.

_<function>_words() { mapfile -t COMPREPLY < <(compgen -W "$1" -- "$2"); }

_<function>_paths() {  # -f: files and folders; -d: folders
  local found
  compopt -o filenames 2>/dev/null
  mapfile -t found < <(compgen "$1" -- "$2")
  COMPREPLY+=("${found[@]}")
}

)";

// At --flag=value bash has three words, and two before the value is typed.
constexpr const char* kBashBegin = R"(_<function>() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command=<default>
  COMPREPLY=()
  if [[ $word == = ]]; then
    word=
  elif [[ $before == = ]]; then
    before=${COMP_WORDS[COMP_CWORD - 2]}
  fi
)";

constexpr const char* kBashEnd = R"(}
complete -o default -F _<function> <program>
)";

std::string offer(const ValueHints& hints) {
  std::string text;
  if (!hints.words.empty()) text += fmt::format("_<function>_words '{}' \"$word\"; ", fmt::join(hints.words, " "));
  if (hints.paths == Paths::None) return text + "compopt +o default 2>/dev/null";
  return text + fmt::format("_<function>_paths {} \"$word\"", hints.paths == Paths::Files ? "-f" : "-d");
}

std::string flags_for(const Program& program, const ProgramCommand& command) {
  std::string flags = "--help";
  for (const ProgramOption& option : program.options) {
    if (option.is_for(command) && !option.is_word()) flags += " " + option.flag;
  }
  return flags + (command.word == program.default_command().word ? " --version" : "");
}

// The values of options, grouped by equal offers.
std::string cases_of_values(const Program& program) {
  std::map<std::string, std::vector<std::string>> flags;
  for (const ProgramOption& option : program.options) {
    if (!option.placeholder.empty()) flags[offer(option.hints)].push_back(option.flag);
  }
  std::string text = "  case $before in\n";
  for (const auto& [offered, names] : flags) {
    text += fmt::format("    {})\n      {}\n      return\n      ;;\n", fmt::join(names, " | "), offered);
  }
  return text + "  esac\n";
}

// Words are not counted: each is offered as the first of its command.
std::string words_for(const ProgramCommand& command) {
  if (command.words.empty()) return "";
  return fmt::format("      [[ $word == -* ]] || {{ {}; return; }}\n", offer(command.words.front().hints));
}

std::string cases_of_commands(const Program& program) {
  std::string text = "  case $command in\n";
  for (const ProgramCommand& command : program.commands) {
    text += fmt::format("    {})\n{}      _<function>_words '{}' \"$word\"\n      ;;\n", command.word,
                        words_for(command), flags_for(program, command));
  }
  return text + "  esac\n  compopt +o default 2>/dev/null\n";
}

std::string bash_first_words(const Program& program) {
  const bool has_help = !program.help_word.empty();
  const Paths paths = program.paths_at_first();
  std::string text = "  if ((COMP_CWORD == 1)) && [[ $word != -* ]]; then\n";
  text += fmt::format("    _<function>_words \"$commands{}\" \"$word\"\n", has_help ? " help" : "");
  if (paths != Paths::None) text += fmt::format("    {}\n", offer({.paths = paths}));
  text += "    return\n  fi\n";
  if (has_help) {
    text +=
        "  if [[ ${COMP_WORDS[1]} == help ]]; then\n"
        "    _<function>_words \"$commands\" \"$word\"\n    return\n  fi\n";
  }
  return text + "  [[ \" $commands \" == *\" ${COMP_WORDS[1]} \"* ]] && command=${COMP_WORDS[1]}\n";
}

}  // namespace

std::string bash_completion(const Program& program) {
  const std::vector<std::string> commands = program.typed_words();
  std::string text = std::string(kBashHelpers) + kBashBegin;
  text += fmt::format("  local commands='{}'\n", fmt::join(commands, " "));
  text += bash_first_words(program) + cases_of_values(program) + cases_of_commands(program) + kBashEnd;
  return with_names(text, program);
}

}  // namespace trainer
