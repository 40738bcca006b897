// Scripts that let a shell complete the command line of a program: commands, flags, values that an option may have, and
// files. Made from the program's description, so they know what this build knows.
#pragma once

#include <string>

#include "manual/program.h"

namespace trainer {

// For `source <(PROGRAM completion bash)`, or a file of bash-completion's.
std::string bash_completion(const Program& program);
// For `source <(PROGRAM completion zsh)`, or a file _PROGRAM in a folder of $fpath.
std::string zsh_completion(const Program& program);
// For a file in ~/.config/fish/completions.
std::string fish_completion(const Program& program);

// `shell` is one of kShells.
std::string completion_script(const std::string& shell, const Program& program);

// A description as far as a list has room for it: up to its first full stop, colon, semicolon or bracket.
std::string short_description(const std::string& text);

// A script with the program's name for <program>, that of its default command for <default>, and for <function> the
// name that its functions begin with.
std::string with_names(std::string script, const Program& program);

}  // namespace trainer
