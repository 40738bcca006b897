#include "manual/completion.h"

#include <algorithm>

namespace trainer {

namespace {

void put_for(std::string& script, const std::string& mark, const std::string& name) {
  for (size_t at = script.find(mark); at != std::string::npos; at = script.find(mark, at + name.size())) {
    script.replace(at, mark.size(), name);
  }
}

}  // namespace

std::string completion_script(const std::string& shell, const Program& program) {
  if (shell == "zsh") return zsh_completion(program);
  return shell == "fish" ? fish_completion(program) : bash_completion(program);
}

std::string short_description(const std::string& text) {
  const size_t end = std::min({text.find(". "), text.find(": "), text.find("; "), text.find(" ["), text.size()});
  return text.substr(0, end == text.size() && text.ends_with('.') ? end - 1 : end);
}

std::string with_names(std::string script, const Program& program) {
  std::string function = program.name;
  std::replace(function.begin(), function.end(), '-', '_');
  put_for(script, "<program>", program.name);
  put_for(script, "<function>", function);
  put_for(script, "<default>", program.default_command().word);
  return script;
}

}  // namespace trainer
