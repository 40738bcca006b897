// Scripts that let a shell complete the command line of fsdp-train: commands, flags, values that an option may have,
// and files. Made from the table of options, so they know what this build knows.
#pragma once

#include <string>

namespace trainer {

// For `source <(fsdp-train completion bash)`, or a file of bash-completion's.
std::string bash_completion();
// The same for zsh, or a file _fsdp-train in a folder of $fpath.
std::string zsh_completion();
// For a file in ~/.config/fish/completions.
std::string fish_completion();

// `shell` is one of kShells.
std::string completion_script(const std::string& shell);

// A description as far as a list has room for it: up to its first full stop, colon or semicolon.
std::string short_description(const std::string& text);

}  // namespace trainer
