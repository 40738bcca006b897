#include "manual/completion.h"

#include <algorithm>

namespace trainer {

std::string completion_script(const std::string& shell) {
  if (shell == "zsh") return zsh_completion();
  return shell == "fish" ? fish_completion() : bash_completion();
}

std::string short_description(const std::string& text) {
  const size_t end = std::min({text.find(". "), text.find(": "), text.find("; "), text.size()});
  return text.substr(0, end == text.size() && text.ends_with('.') ? end - 1 : end);
}

}  // namespace trainer
