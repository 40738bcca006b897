#include <cstring>
#include <optional>

#include "base/error.h"
#include "checkpoint/contents.h"
#include "checkpoint/partial_directory.h"
#include "engine/model.h"

namespace fsdp {

namespace {

using checkpoint::Manifest;
using checkpoint::PartialDirectory;
using checkpoint::WrittenFile;

// The files that the ranks have written, by rank, on every rank. A collective.
std::vector<WrittenFile> tell_all(collectives::Group& group, const WrittenFile& own) {
  torch::Tensor message = torch::zeros({sizeof(int64_t) + files::kHashDigits}, torch::kUInt8);
  auto* bytes = static_cast<char*>(message.mutable_data_ptr());
  std::memcpy(bytes, &own.bytes, sizeof own.bytes);
  std::memcpy(bytes + sizeof own.bytes, own.hash.data(), own.hash.size());
  std::vector<WrittenFile> all;
  for (const torch::Tensor& one : group.all_gather(message)) {
    const auto* theirs = static_cast<const char*>(one.const_data_ptr());
    WrittenFile& file = all.emplace_back();
    std::memcpy(&file.bytes, theirs, sizeof file.bytes);
    file.hash.assign(theirs + sizeof file.bytes, files::kHashDigits);
  }
  return all;
}

// The optimizer's numbers of each parameter as the rank has them that holds its first elements: elsewhere nobody needs
// them, and users may leave gradients of empty pieces undefined. A collective.
void tell_scalars(collectives::Group& group, const checkpoint::Contents& contents, Manifest& manifest) {
  if (contents.scalars.empty()) return;
  std::vector<double> own;
  for (const auto& scalar : contents.scalars) {
    own.push_back(manifest.parameters[scalar.parameter].scalars.at(scalar.kind));
  }
  torch::Tensor message = torch::empty({static_cast<int64_t>(own.size() * sizeof(double))}, torch::kUInt8);
  std::memcpy(message.mutable_data_ptr(), own.data(), message.nbytes());
  const std::vector<torch::Tensor> all = group.all_gather(message);
  for (size_t i = 0; i < own.size(); ++i) {
    const auto& scalar = contents.scalars[i];
    Manifest::Parameter& parameter = manifest.parameters[scalar.parameter];
    const size_t holder = parameter.pieces.empty() ? 0 : static_cast<size_t>(parameter.pieces.front().shard);
    const auto* theirs = static_cast<const char*>(all[holder].const_data_ptr());
    std::memcpy(&parameter.scalars[scalar.kind], theirs + i * sizeof(double), sizeof(double));
  }
}

// Where the first rank made the directory. A collective.
std::filesystem::path tell_path(collectives::Group& group, const std::filesystem::path& target,
                                const std::optional<PartialDirectory>& partial) {
  torch::Tensor message = torch::zeros({checkpoint::kPartialSuffixBytes}, torch::kUInt8);
  if (partial) {
    const std::string path = partial->path().string();
    path.copy(static_cast<char*>(message.mutable_data_ptr()), message.nbytes(), target.string().size());
  }
  group.broadcast_(message, 0);
  return target.string() + std::string(static_cast<const char*>(message.const_data_ptr()), message.nbytes());
}

}  // namespace

void save_checkpoint(const std::filesystem::path& directory, const Checkpoint& checkpoint) {
  FSDP_CHECK(checkpoint.model != nullptr, "save_checkpoint: the model is missing; set .model = &sharded");
  FSDP_CHECK(checkpoint.step >= 0 && checkpoint.step <= checkpoint::kHighestStep,
             "save_checkpoint: found step {}, expected a number from 0 to 2^53", checkpoint.step);
  engine::Model& model = checkpoint.model->model();
  model.check(schedule::Call::ReadState, "save_checkpoint");
  model.check_parameters("save_checkpoint");
  collectives::Group& group = model.group();
  const bool first = group.rank() == 0;
  std::filesystem::path target = std::filesystem::absolute(directory).lexically_normal();
  if (target.filename().empty()) target = target.parent_path();  // "run/step-5/" is "run/step-5"
  const std::string what = "save_checkpoint " + target.string();

  std::optional<PartialDirectory> partial;
  checkpoint::Contents contents;
  Manifest manifest;
  checkpoint::all_succeed(group, what, [&] {
    contents = checkpoint::contents_of(checkpoint);
    manifest = checkpoint::manifest_of(checkpoint, contents);
    if (first) partial.emplace(target);
  });
  tell_scalars(group, contents, manifest);
  const std::filesystem::path path = tell_path(group, target, partial);
  WrittenFile own;
  checkpoint::all_succeed(group, what, [&] {
    if (group.rank() >= model.shards()) return;  // the first shard group holds the whole model once
    own = checkpoint::write_safetensors(path / checkpoint::shard_file_name(group.rank(), model.shards()),
                                        checkpoint::tensors_of_file(checkpoint, contents), {{"format", "pt"}},
                                        checkpoint::Hashes::InHeader);
  });
  const std::vector<WrittenFile> written = tell_all(group, own);
  checkpoint::all_succeed(group, what, [&] {
    if (!first) return;
    manifest.files.assign(written.begin(), written.begin() + model.shards());
    checkpoint::write_manifest(path, manifest);
    partial->commit();
    partial.reset();  // the next job may save there as soon as any rank goes on
  });
}

}  // namespace fsdp
