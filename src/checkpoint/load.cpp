#include <fmt/ranges.h>
#include <algorithm>

#include "base/error.h"
#include "checkpoint/contents.h"
#include "engine/model.h"

namespace fsdp {

namespace {

using checkpoint::Manifest;
using checkpoint::NamedTensors;

// What is wrong with the checkpoint for this model; at most a few lines of it.
void check_same_parameters(const std::string& directory, const Manifest& saved, const Manifest& expected) {
  constexpr size_t kShown = 5;
  std::vector<std::string> problems;
  auto find = [](const Manifest& in, const std::string& name) {
    return std::find_if(in.parameters.begin(), in.parameters.end(), [&](const auto& one) { return one.name == name; });
  };
  for (const auto& parameter : expected.parameters) {
    const auto found = find(saved, parameter.name);
    if (found == saved.parameters.end()) {
      problems.push_back(parameter.name + " is missing");
    } else if (found->shape != parameter.shape) {
      problems.push_back(fmt::format("{} has shape {}, expected {}", parameter.name, found->shape, parameter.shape));
    } else if (found->strides != parameter.strides) {
      problems.push_back(
          fmt::format("{} has strides {}, expected {}", parameter.name, found->strides, parameter.strides));
    }
  }
  for (const auto& parameter : saved.parameters) {
    if (find(expected, parameter.name) == expected.parameters.end()) problems.push_back(parameter.name + " is unknown");
  }
  if (problems.empty()) return;
  const size_t count = problems.size();
  problems.resize(std::min(count, kShown));
  FSDP_CHECK(false, "{}: a checkpoint of another model: {}{}. Build the model that it was saved from.", directory,
             fmt::join(problems, "; "), count > kShown ? fmt::format("; and {} more", count - kShown) : "");
}

// The file's tensors in the order of `wanted`, each of the wanted shape and dtype.
std::vector<torch::Tensor> read_wanted(const std::filesystem::path& file, const NamedTensors& wanted) {
  const auto tensors = checkpoint::read_safetensors(file);
  std::vector<torch::Tensor> found;
  for (const auto& [name, tensor] : wanted) {
    const auto one = tensors.find(name);
    FSDP_CHECK(one != tensors.end(), "{}: {} is missing. Was the checkpoint saved with this optimizer?", file.string(),
               name);
    FSDP_CHECK(one->second.sizes() == tensor.sizes() && one->second.scalar_type() == tensor.scalar_type(),
               "{}: {} has shape {} of {}, expected {} of {}", file.string(), name, one->second.sizes().vec(),
               toString(one->second.scalar_type()), tensor.sizes().vec(), toString(tensor.scalar_type()));
    found.push_back(one->second);
  }
  return found;
}

}  // namespace

int64_t load_checkpoint(const std::filesystem::path& directory, const Checkpoint& checkpoint) {
  FSDP_CHECK(checkpoint.model != nullptr, "load_checkpoint: the model is missing; set .model = &sharded");
  torch::NoGradGuard no_grad;
  interpose::Unwatched ours;
  engine::Model& model = checkpoint.model->model();
  collectives::Group& group = model.group();
  const NamedTensors wanted = checkpoint::contents_of(checkpoint);
  Manifest manifest;
  std::vector<torch::Tensor> found;
  // Everything is read and checked on every rank before anything changes on one.
  checkpoint::all_succeed(group, "load_checkpoint " + directory.string(), [&] {
    manifest = checkpoint::read_manifest(directory);
    check_same_parameters(directory.string(), manifest, checkpoint::manifest_of(checkpoint));
    FSDP_CHECK(manifest.shards == model.shards(),
               "{}: saved in {} shards by {} ranks, found {} shards on {} ranks here. Load it with as many shards: by "
               "the number of ranks, or options.shard_group_size.",
               directory.string(), manifest.shards, manifest.world_size, model.shards(), group.size());
    found = read_wanted(directory / checkpoint::shard_file_name(group.rank() % model.shards(), model.shards()), wanted);
  });
  model.begin_load();
  for (size_t i = 0; i < wanted.size(); ++i) torch::Tensor(wanted[i].second).copy_(found[i]);
  model.publish();
  model.broadcast_buffers(0);
  return manifest.step;
}

std::map<std::string, std::string> checkpoint_notes(const std::filesystem::path& directory) {
  return checkpoint::read_manifest(directory).notes;
}

std::optional<std::filesystem::path> latest_checkpoint(const std::filesystem::path& directory) {
  std::optional<std::filesystem::path> latest;
  int64_t step = -1;
  std::error_code missing;
  for (const auto& entry : std::filesystem::directory_iterator(directory, missing)) {
    if (!entry.is_directory() || entry.path().filename().string().find(".partial") != std::string::npos) continue;
    try {
      const int64_t found = checkpoint::read_manifest(entry.path()).step;
      if (found > step) latest = entry.path(), step = found;
    } catch (const Error&) {
      // not a checkpoint, or not a whole one
    }
  }
  return latest;
}

}  // namespace fsdp
