#include "checkpoint/write_checkpoint.h"

#include <cstring>
#include <optional>
#include <utility>

#include "checkpoint/generators.h"
#include "checkpoint/partial_directory.h"
#include "files/partial_names.h"

namespace fsdp::checkpoint {

namespace {

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

// The optimizer's numbers of each parameter, from the rank with its first elements. Other ranks do not need them, and
// users may leave gradients of empty pieces undefined. A collective.
void tell_scalars(collectives::Group& group, Snapshot& snapshot) {
  Manifest& manifest = snapshot.manifest;
  if (snapshot.scalars.empty()) return;
  std::vector<double> own;
  for (const auto& scalar : snapshot.scalars) {
    own.push_back(manifest.parameters[scalar.parameter].scalars.at(scalar.kind));
  }
  torch::Tensor message = torch::empty({static_cast<int64_t>(own.size() * sizeof(double))}, torch::kUInt8);
  std::memcpy(message.mutable_data_ptr(), own.data(), message.nbytes());
  const std::vector<torch::Tensor> all = group.all_gather(message);
  for (size_t i = 0; i < own.size(); ++i) {
    const Snapshot::Scalar& scalar = snapshot.scalars[i];
    Manifest::Parameter& parameter = manifest.parameters[scalar.parameter];
    const size_t holder = parameter.pieces.empty() ? 0 : static_cast<size_t>(parameter.pieces.front().shard);
    const auto* theirs = static_cast<const char*>(all[holder].const_data_ptr());
    std::memcpy(&parameter.scalars[scalar.kind], theirs + i * sizeof(double), sizeof(double));
  }
}

// Where the first rank made the directory. A collective.
std::filesystem::path tell_path(collectives::Group& group, const std::filesystem::path& target,
                                const std::optional<PartialDirectory>& partial) {
  torch::Tensor message = torch::zeros({files::kPartialSuffixBytes}, torch::kUInt8);
  if (partial) {
    const std::string path = partial->path().string();
    path.copy(static_cast<char*>(message.mutable_data_ptr()), message.nbytes(), target.string().size());
  }
  group.broadcast_(message, 0);
  return target.string() + std::string(static_cast<const char*>(message.const_data_ptr()), message.nbytes());
}

}  // namespace

void write_checkpoint(collectives::Group& group, const SaveTarget& target, const std::function<Snapshot()>& take,
                      const std::function<void()>& file_written) {
  const bool first = group.rank() == 0;
  std::optional<PartialDirectory> partial;
  Snapshot snapshot;
  all_succeed(group, target.what, [&] {
    snapshot = take();
    if (first) partial.emplace(target.directory);
  });
  tell_scalars(group, snapshot);
  const NamedTensors generators = gather_states(group, snapshot.generators);
  snapshot.tensors.insert(snapshot.tensors.end(), generators.begin(), generators.end());
  const std::filesystem::path path = tell_path(group, target.directory, partial);
  WrittenFile own;
  all_succeed(group, target.what, [&] {
    if (group.rank() >= target.shards) return;
    own = write_safetensors(path / shard_file_name(group.rank(), target.shards), snapshot.tensors, {{"format", "pt"}},
                            Hashes::InHeader);
    snapshot.tensors.clear();
    file_written();
  });
  const std::vector<WrittenFile> written = tell_all(group, own);
  all_succeed(group, target.what, [&] {
    if (!first) return;
    snapshot.manifest.files.assign(written.begin(), written.begin() + target.shards);
    write_manifest(path, snapshot.manifest);
    partial->commit();
    partial.reset();  // the next job may save there as soon as any rank goes on
  });
}

}  // namespace fsdp::checkpoint
