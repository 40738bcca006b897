#include "options/frozen.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <sstream>

#include "options/did_you_mean.h"

namespace trainer {

namespace {

std::vector<std::string> parameters_of(const RunOptions& options) {
  std::vector<std::string> names;
  for (const models::Unit& unit : models::units(options.model)) {
    for (const models::Parameter& parameter : unit.parameters) names.push_back(parameter.name);
  }
  return names;
}

// Patterns that people may have meant: parameters, the modules around them, and each part of a name between stars.
std::vector<std::string> possible_patterns(const std::vector<std::string>& parameters) {
  std::set<std::string> patterns;
  for (const std::string& name : parameters) {
    patterns.insert(name);
    for (size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.', dot + 1)) {
      patterns.insert(name.substr(0, dot));
      patterns.insert(name.substr(0, dot) + ".*");
      patterns.insert("*" + name.substr(dot));
      patterns.insert("*" + name.substr(dot, name.find('.', dot + 1) - dot) + ".*");
    }
  }
  return {patterns.begin(), patterns.end()};
}

}  // namespace

std::vector<std::string> names_in(const std::string& list) {
  std::vector<std::string> names;
  std::istringstream text(list);
  for (std::string name; std::getline(text, name, ',');) {
    if (!name.empty()) names.push_back(name);
  }
  return names;
}

bool names_parameter(const std::string& pattern, const std::string& parameter) {
  return fnmatch(pattern.c_str(), parameter.c_str(), FNM_NOESCAPE) == 0 || parameter.starts_with(pattern + ".");
}

std::set<std::string> frozen_parameters(const RunOptions& options) {
  const std::vector<std::string> patterns = names_in(options.freeze);
  std::set<std::string> frozen;
  if (patterns.empty() && !options.model.lora) return frozen;
  for (const std::string& parameter : parameters_of(options)) {
    const auto is_named_by = [&](const std::string& pattern) { return names_parameter(pattern, parameter); };
    const bool is_base = options.model.lora && !models::is_adapter(parameter);
    if (is_base || std::ranges::any_of(patterns, is_named_by)) frozen.insert(parameter);
  }
  return frozen;
}

std::vector<std::string> freeze_problems(const std::string& freeze, const std::vector<std::string>& parameters) {
  std::vector<std::string> problems;
  const std::vector<std::string> patterns = names_in(freeze);
  for (const std::string& pattern : patterns) {
    if (std::ranges::any_of(parameters, [&](const std::string& name) { return names_parameter(pattern, name); }))
      continue;
    problems.push_back(with_hint(fmt::format("--freeze: '{}' matches no parameter of the model", pattern),
                                 did_you_mean(pattern, possible_patterns(parameters))));
  }
  const auto is_frozen = [&](const std::string& name) {
    return std::ranges::any_of(patterns, [&](const std::string& pattern) { return names_parameter(pattern, name); });
  };
  if (problems.empty() && !patterns.empty() && std::ranges::all_of(parameters, is_frozen))
    problems.push_back(fmt::format("--freeze {} leaves no parameter to train.", freeze));
  return problems;
}

std::vector<std::string> freeze_problems(const RunOptions& options) {
  if (options.freeze.empty()) return {};
  std::vector<std::string> problems = freeze_problems(options.freeze, parameters_of(options));
  if (problems.empty() && frozen_parameters(options).size() == parameters_of(options).size())
    problems.push_back(fmt::format("--freeze {} leaves no parameter to train.", options.freeze));
  return problems;
}

}  // namespace trainer
