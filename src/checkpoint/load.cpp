#include <fmt/ranges.h>
#include <algorithm>

#include "base/error.h"
#include "checkpoint/contents.h"
#include "engine/model.h"
#include "interpose/piece_storage.h"

namespace fsdp {

namespace {

using checkpoint::Manifest;
using checkpoint::NamedTensors;
using checkpoint::SafetensorsFile;
using checkpoint::WrittenFile;

// Reasons why the checkpoint does not fit this model; at most a few lines of it.
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

// The names of StateDtype, by the first tensor that each keeps a moment in.
std::string state_dtype_of(torch::ScalarType type) {
  if (type == torch::kInt8 || type == torch::kUInt8) return "Block8";
  if (type == torch::kBFloat16) return "BFloat16";
  return type == torch::kFloat32 ? "Float32" : toString(type);
}

// The entries of `wanted`, each of the wanted shape and dtype: compared before anything of them is read.
std::vector<const SafetensorsFile::Entry*> find_wanted(const SafetensorsFile& file, const std::string& name,
                                                       const NamedTensors& wanted) {
  std::map<std::string_view, const SafetensorsFile::Entry*> entries;
  for (const auto& entry : file.entries()) entries.emplace(entry.name, &entry);
  std::vector<const SafetensorsFile::Entry*> found;
  for (const auto& [tensor_name, tensor] : wanted) {
    const auto one = entries.find(tensor_name);
    FSDP_CHECK(one != entries.end(), "{}: {} is missing. Was the checkpoint saved with this optimizer?", name,
               tensor_name);
    const SafetensorsFile::Entry& entry = *one->second;
    FSDP_CHECK(entry.type == tensor.scalar_type() || !tensor_name.starts_with("optimizer."),
               "{}: the optimizer's state was kept as {}, and is kept as {} here ({}). Set state_dtype to {}, or load "
               "the model alone.",
               name, state_dtype_of(entry.type), state_dtype_of(tensor.scalar_type()), tensor_name,
               state_dtype_of(entry.type));
    FSDP_CHECK(entry.shape == tensor.sizes().vec() && entry.type == tensor.scalar_type(),
               "{}: {} has shape {} of {}, expected {} of {}", name, tensor_name, entry.shape, toString(entry.type),
               tensor.sizes().vec(), toString(tensor.scalar_type()));
    found.push_back(&entry);
  }
  return found;
}

void check_size(const std::string& name, int64_t bytes, const WrittenFile& saved) {
  FSDP_CHECK(bytes == saved.bytes, "{} is damaged: found {} bytes, expected {}. Use an older checkpoint.", name, bytes,
             saved.bytes);
}

void check_hash(const std::string& name, const std::string& hash, const WrittenFile& saved) {
  FSDP_CHECK(hash == saved.hash,
             "{} is damaged, or of another step: its hash is {}, expected {}. Use an older checkpoint.", name, hash,
             saved.hash);
}

// The file's tensors in the order of `wanted`, when all of the file is as it was saved.
std::vector<torch::Tensor> read_wanted(const std::filesystem::path& path, const WrittenFile& saved,
                                       const NamedTensors& wanted) {
  const std::string name = path.string();
  const SafetensorsFile file(path);
  check_size(name, file.bytes(), saved);
  std::vector<const SafetensorsFile::Entry*> entries;
  try {
    entries = find_wanted(file, name, wanted);
  } catch (const Error&) {
    // A flipped bit in a name or a shape is damage, and not another model.
    check_hash(name, file.read_with_hash({}).second, saved);
    throw;
  }
  auto [tensors, hash] = file.read_with_hash(entries);
  check_hash(name, hash, saved);
  return std::move(tensors);
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
    const int shard = group.rank() % model.shards();
    found = read_wanted(directory / checkpoint::shard_file_name(shard, model.shards()), manifest.files[shard], wanted);
  });
  model.begin_load("load_checkpoint");
  for (size_t i = 0; i < wanted.size(); ++i) torch::Tensor(wanted[i].second).copy_(found[i]);
  model.loaded(std::vector<bool>(model.parameters().size(), true));
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
  std::error_code error;
  std::filesystem::directory_iterator entry(directory, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    std::error_code ignored;  // of a loop of links, say
    if (!entry->is_directory(ignored) || entry->path().filename().string().find(".partial") != std::string::npos) {
      continue;
    }
    try {
      const int64_t found = checkpoint::read_manifest(entry->path()).step;
      if (found > step) latest = entry->path(), step = found;
    } catch (const Error&) {
      // not a checkpoint, or not a whole one
    }
  }
  return latest;
}

}  // namespace fsdp
