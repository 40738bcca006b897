#include "formats/state_names.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "base/names.h"

namespace fsdp::formats {

namespace {

constexpr std::array<std::string_view, 4> kModelWords = {"model", "state_dict", "model_state_dict", "module"};
constexpr std::array<std::string_view, 4> kOptimizerWords = {"optimizer", "optim", "optimizer_state_dict",
                                                             "optimizer_state"};
constexpr std::string_view kStateWord = "state.";

// The words that `paths` have at this depth, with something below them.
std::set<std::string> words_at(const std::vector<StatePath>& paths, size_t depth) {
  std::set<std::string> words;
  for (const StatePath& path : paths) {
    if (path.size() > depth + 1) words.insert(path[depth]);
  }
  return words;
}

template <typename Words>
std::optional<std::string> first_of(const Words& known, const std::set<std::string>& found) {
  for (const std::string_view word : known) {
    if (found.contains(std::string(word))) return std::string(word);
  }
  return std::nullopt;
}

std::string joined(const StatePath& path, size_t from) {
  return fmt::format("{}", fmt::join(path.begin() + static_cast<std::ptrdiff_t>(from), path.end(), "."));
}

// "state.NAME.STATE"; the name of a state has no dot.
std::optional<TensorName> state_of(const std::string& text) {
  const size_t dot = text.rfind('.');
  if (!text.starts_with(kStateWord) || dot < kStateWord.size()) return std::nullopt;
  const std::string name = text.substr(kStateWord.size(), dot - kStateWord.size());
  if (name.empty()) return std::nullopt;
  return TensorName{Role::State, name, text.substr(dot + 1)};
}

bool has_names(const std::vector<ParameterGroup>& groups) {
  return !groups.empty() && std::ranges::all_of(groups, [](const ParameterGroup& group) {
    return group.names.size() == group.numbers.size();
  });
}

// The names of numbered parameters, by number; none where the groups do not say.
std::map<std::string, std::string> names_in(const std::vector<ParameterGroup>& groups,
                                            const std::vector<std::string>& in_order) {
  std::map<std::string, std::string> names;
  const bool named = has_names(groups);
  if (!named && (groups.size() != 1 || groups[0].numbers.size() != in_order.size())) return names;
  for (const ParameterGroup& group : groups) {
    for (size_t i = 0; i < group.numbers.size(); ++i) {
      const std::string& name = named ? group.names[i] : in_order[i];
      const bool is_new = names.emplace(std::to_string(group.numbers[i]), name).second;
      if (!is_new) return {};
    }
  }
  return names;
}

}  // namespace

std::vector<std::optional<TensorName>> names_of_state(const std::vector<StatePath>& paths) {
  size_t depth = 0;
  std::set<std::string> words = words_at(paths, 0);
  const bool all_within = std::ranges::all_of(paths, [](const StatePath& path) { return path.size() > 2; });
  if (all_within && words.size() == 1 && !first_of(kModelWords, words)) words = words_at(paths, depth = 1);
  const auto model = first_of(kModelWords, words), optimizer = first_of(kOptimizerWords, words);
  std::vector<std::optional<TensorName>> names;
  for (const StatePath& path : paths) {
    if (!model) {
      names.emplace_back(name_of_model(path));
    } else if (path.size() > depth + 1 && path[depth] == model) {
      names.emplace_back(TensorName{Role::Parameter, joined(path, depth + 1)});
    } else if (path.size() > depth + 1 && path[depth] == optimizer) {
      names.push_back(state_of(joined(path, depth + 1)));
    } else {
      names.push_back(std::nullopt);
    }
  }
  return names;
}

bool is_numbered(const TensorName& name) {
  return name.role == Role::State && name.name.find_first_not_of("0123456789") == std::string::npos;
}

NumberedStates name_numbered_states(std::vector<StoredTensor>& tensors, const std::vector<ParameterGroup>& groups) {
  std::vector<std::string> in_order;
  std::map<std::string, const StoredTensor*> parameters;
  for (const StoredTensor& tensor : tensors) {
    if (tensor.name.role != Role::Parameter) continue;
    if (!tensor.same_as) in_order.push_back(tensor.name.name);
    parameters[tensor.name.name] = &tensor;
  }
  const std::map<std::string, std::string> names = names_in(groups, in_order);
  std::vector<std::pair<StoredTensor*, std::string>> named;
  for (StoredTensor& tensor : tensors) {
    if (!is_numbered(tensor.name)) continue;
    const auto name = names.find(tensor.name.name);
    const auto parameter = name == names.end() ? parameters.end() : parameters.find(name->second);
    if (parameter == parameters.end()) return NumberedStates::Unknown;
    const bool is_number = tensor.shape.empty();  // of steps
    if (!is_number && tensor.shape != parameter->second->shape) return NumberedStates::Unknown;
    named.emplace_back(&tensor, name->second);
  }
  if (named.empty()) return NumberedStates::None;
  for (auto& [tensor, name] : named) tensor->name.name = name;
  return has_names(groups) ? NumberedStates::NamedByFile : NumberedStates::NamedByOrder;
}

TensorName name_of_model(const StatePath& path) { return {Role::Parameter, joined(path, 0)}; }

StatePath path_in_state(const TensorName& name, const std::string& optimizer) {
  if (name.role == Role::State) return {optimizer, "state", name.name, name.state};
  return {std::string(kModelWords[0]), name.name};
}

void settle_buffers(std::vector<StoredTensor>& tensors, const std::vector<std::string>& patterns) {
  constexpr std::array<std::string_view, 3> kBufferNames = {"running_mean", "running_var", "num_batches_tracked"};
  for (StoredTensor& tensor : tensors) {
    if (tensor.name.role != Role::Parameter) continue;
    const std::string& name = tensor.name.name;
    const std::string last = name.substr(name.rfind('.') + 1);
    const bool is_buffer = !c10::isFloatingType(tensor.type) || matches_any(patterns, name) ||
                           std::ranges::find(kBufferNames, last) != kBufferNames.end();
    if (is_buffer) tensor.name.role = Role::Buffer;
  }
}

}  // namespace fsdp::formats
