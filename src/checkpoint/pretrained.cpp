#include "checkpoint/pretrained.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/names.h"
#include "checkpoint/contents.h"
#include "checkpoint/joined_manifest.h"
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

torch::ScalarType type_of(const std::string& dtype) {
  for (const torch::ScalarType type : {torch::kFloat, torch::kBFloat16, torch::kHalf, torch::kDouble, torch::kLong,
                                       torch::kInt, torch::kShort, torch::kChar, torch::kByte, torch::kBool}) {
    if (dtype_name(type) == dtype) return type;
  }
  throw Error("the dtype " + dtype + " is not one of a parameter or buffer");
}

// The number of the block that a parameter or buffer is in; of others it is behind them.
size_t block_of(const std::vector<std::string>& blocks, const std::string& name) {
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (name.starts_with(blocks[i] + ".")) return i;
  }
  return blocks.size();
}

template <typename Named>
void put_in_order(std::vector<Named>& all, const std::vector<std::string>& blocks) {
  std::ranges::stable_sort(all, {}, [&](const Named& one) { return block_of(blocks, one.name); });
}

// The names of `order` first, in its order.
void put_first(std::vector<Manifest::Parameter>& all, const std::vector<std::string>& order) {
  std::map<std::string, size_t> places;
  for (const std::string& name : order) places.emplace(name, places.size());
  std::ranges::stable_sort(all, {}, [&](const Manifest::Parameter& one) {
    const auto place = places.find(one.name);
    return place == places.end() ? places.size() : place->second;
  });
}

}  // namespace

std::vector<int64_t> PretrainedTensor::shape_in_file() const {
  return transposed ? std::vector<int64_t>(shape.rbegin(), shape.rend()) : shape;
}

namespace {

std::vector<PretrainedTensor> pretrained_tensors(const Manifest& whole, const PretrainedOptions& options) {
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
  for (const auto& parameter : whole.parameters) {
    add(parameter.name, parameter.shape, type_of(parameter.tensors.at(kModel)), false);
  }
  for (const auto& buffer : whole.buffers) add(buffer.name, buffer.shape, type_of(buffer.dtype), true);
  std::vector<std::string> problems;
  find_shared_names(tensors, problems);
  find_wrong_patterns(tensors, options, problems);
  throw_if_any(problems, "PretrainedOptions do not fit the model", "Change the options.");
  return tensors;
}

}  // namespace

PretrainedModel pretrained_model(ShardedModel& sharded, const CheckpointRanks& ranks, const std::string& what,
                                 const PretrainedOptions& options) {
  engine::Model& model = sharded.model();
  PretrainedModel result;
  Manifest own;
  ranks.all_succeed(what, [&] {
    ranks.leader();  // the mesh is one of this model
    const Checkpoint checkpoint{.model = &sharded};
    own = manifest_of(checkpoint, contents_of(checkpoint));
  });
  ranks.run(what.substr(0, what.find(' ')), [&](collectives::Group& group) {
    result.whole = ranks.has_others() ? describe_whole(group, own, model.group().rank() == 0)
                                      : described(std::vector<Contribution>{{0, own}});
  });
  put_in_order(result.whole.parameters, model.whole().blocks);
  if (!options.order.empty()) put_first(result.whole.parameters, options.order);
  put_in_order(result.whole.buffers, model.whole().blocks);
  ranks.all_succeed(what, [&] { result.tensors = pretrained_tensors(result.whole, options); });
  return result;
}

}  // namespace fsdp::checkpoint
