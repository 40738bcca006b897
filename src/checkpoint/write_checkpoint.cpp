#include "checkpoint/write_checkpoint.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "checkpoint/generators.h"
#include "checkpoint/joined_manifest.h"
#include "checkpoint/partial_directory.h"
#include "files/partial_names.h"

namespace fsdp::checkpoint {

namespace {

// The files that the ranks have written, by rank, on every rank. A collective.
std::vector<WrittenFile> tell_all(collectives::Group& group, const WrittenFile& own) {
  torch::Tensor message = torch::zeros({sizeof(int64_t) + files::kHashDigits}, torch::kUInt8);
  auto* bytes = static_cast<char*>(message.mutable_data_ptr());
  std::memcpy(bytes, &own.bytes, sizeof own.bytes);
  std::ranges::copy(own.hash, bytes + sizeof own.bytes);
  std::vector<WrittenFile> all;
  for (const torch::Tensor& one : group.all_gather(message)) {
    const auto* theirs = static_cast<const char*>(one.const_data_ptr());
    WrittenFile& file = all.emplace_back();
    std::memcpy(&file.bytes, theirs, sizeof file.bytes);
    file.hash.assign(theirs + sizeof file.bytes, files::kHashDigits);
  }
  return all;
}

// The contributions of the ranks that write a file.
struct Told {
  std::vector<int> writers;           // their ranks, on every rank
  std::vector<std::string> contents;  // encoded, in that order, on rank 0; its own is not among them
};

// A collective.
Told tell_contributions(collectives::Group& group, const Snapshot& snapshot) {
  const std::string own = group.rank() > 0 && snapshot.has_file ? encode(snapshot.manifest) : "";
  const torch::Tensor sizes = torch::tensor({std::ssize(own), static_cast<int64_t>(snapshot.has_file)}, torch::kLong);
  Told told;
  std::vector<int64_t> bytes;
  for (const torch::Tensor& one : group.all_gather(sizes)) {
    const auto* theirs = one.const_data_ptr<int64_t>();
    if (theirs[1] != 0) told.writers.push_back(static_cast<int>(bytes.size()));
    bytes.push_back(theirs[0]);
  }
  const int64_t most = std::ranges::max(bytes);
  if (most == 0) return told;
  torch::Tensor message = torch::zeros({most}, torch::kUInt8);
  std::ranges::copy(own, static_cast<char*>(message.mutable_data_ptr()));
  const std::vector<torch::Tensor> all = group.all_gather(message);
  for (const int rank : told.writers) {
    if (rank == 0 || group.rank() > 0) continue;  // rank 0 joins them
    const auto at = static_cast<size_t>(rank);
    told.contents.emplace_back(static_cast<const char*>(all[at].const_data_ptr()), bytes[at]);
  }
  return told;
}

// On rank 0. `written`: by rank.
Manifest join_contributions(Manifest own, const Told& told, const std::vector<WrittenFile>& written) {
  std::vector<Contribution> all;
  std::vector<WrittenFile> files;
  size_t next = 0;
  for (const int rank : told.writers) {
    all.push_back({rank, rank == 0 ? std::exchange(own, {}) : decode_contribution(told.contents.at(next++))});
    files.push_back(written[static_cast<size_t>(rank)]);
  }
  return joined(std::move(all), files, static_cast<int>(written.size()));
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
  const Told told = tell_contributions(group, snapshot);
  const NamedTensors generators = gather_states(group, snapshot.generators);
  snapshot.tensors.insert(snapshot.tensors.end(), generators.begin(), generators.end());
  const std::filesystem::path path = tell_path(group, target.directory, partial);
  WrittenFile own;
  all_succeed(group, target.what, [&] {
    if (!snapshot.has_file) return;
    const std::string name = shard_file_name(group.rank(), told.writers.back() + 1);
    own = write_safetensors(path / name, snapshot.tensors, {{"format", "pt"}}, Hashes::InHeader);
    snapshot.tensors.clear();
    file_written();
  });
  const std::vector<WrittenFile> written = tell_all(group, own);
  all_succeed(group, target.what, [&] {
    if (!first) return;
    write_manifest(path, join_contributions(std::move(snapshot.manifest), told, written));
    partial->commit();
    partial.reset();  // the next job may save there as soon as any rank goes on
  });
}

}  // namespace fsdp::checkpoint
