#include "checkpoint/pretrained.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/names.h"
#include "checkpoint/problems.h"
#include "engine/model.h"

namespace fsdp::checkpoint {

namespace {

// Two tensors with one name in the file.
void find_shared_names(const std::vector<PretrainedTensor>& tensors, std::vector<std::string>& problems) {
  std::map<std::string, std::string> users;
  for (const PretrainedTensor& tensor : tensors) {
    if (tensor.absent) continue;
    const auto [user, fresh] = users.emplace(tensor.name_in_file, tensor.name);
    if (fresh) continue;
    problems.push_back(fmt::format("name_in_file returns the same name for {} and {}: {}", user->second, tensor.name,
                                   tensor.name_in_file));
  }
}

// A mistyped pattern would leave a square matrix as it is, without an error.
void find_wrong_patterns(const std::vector<PretrainedTensor>& tensors, const PretrainedOptions& options,
                         std::vector<std::string>& problems) {
  const auto find_unused = [&](const std::vector<std::string>& patterns, const char* option) {
    for (const std::string& pattern : patterns) {
      const auto used = [&](const PretrainedTensor& tensor) { return matches(pattern, tensor.name); };
      if (std::any_of(tensors.begin(), tensors.end(), used)) continue;
      problems.push_back(fmt::format("the pattern '{}' of {} matches no parameter", pattern, option));
    }
  };
  find_unused(options.transposed, "transposed");
  find_unused(options.absent, "absent");
  find_unused(options.first_rows, "first_rows");
  for (const PretrainedTensor& tensor : tensors) {
    if (!tensor.transposed || tensor.shape.size() == 2) continue;
    problems.push_back(
        fmt::format("'transposed' matches {}: found shape {}, expected 2 dimensions", tensor.name, tensor.shape));
  }
}

}  // namespace

std::vector<int64_t> PretrainedTensor::shape_in_file() const {
  return transposed ? std::vector<int64_t>(shape.rbegin(), shape.rend()) : shape;
}

std::vector<PretrainedTensor> pretrained_tensors(const ShardedModel& model, const PretrainedOptions& options) {
  std::vector<PretrainedTensor> tensors;
  auto add = [&](const std::string& name, std::vector<int64_t> shape, torch::ScalarType type, bool is_buffer) {
    tensors.push_back({.name = name,
                       .name_in_file = options.name_in_file ? options.name_in_file(name) : name,
                       .shape = std::move(shape),
                       .type = type,
                       .transposed = matches_any(options.transposed, name),
                       .absent = matches_any(options.absent, name),
                       .is_buffer = is_buffer,
                       .may_be_cut = !is_buffer && matches_any(options.first_rows, name)});
  };
  for (const ShardedParameter& parameter : model.parameters()) {
    add(parameter.name, parameter.shape, parameter.piece.scalar_type(), false);
  }
  for (const auto& [name, buffer] : model.buffers()) add(name, buffer.sizes().vec(), buffer.scalar_type(), true);
  std::vector<std::string> problems;
  find_shared_names(tensors, problems);
  find_wrong_patterns(tensors, options, problems);
  throw_if_any(problems, "PretrainedOptions do not fit the model", "Change the options.");
  return tensors;
}

}  // namespace fsdp::checkpoint
