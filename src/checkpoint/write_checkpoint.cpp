#include "checkpoint/write_checkpoint.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "checkpoint/generators.h"
#include "checkpoint/joined_manifest.h"
#include "checkpoint/own_parts.h"
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
  std::vector<int> writers;     // their ranks, on every rank
  std::vector<HeldParts> held;  // of the writers in that order, on rank 0
  OwnParts own;                 // of this rank, if there are ranks outside of its model
};

// Cut to the parts that each rank writes: of all on rank 0, of this rank on others.
void cut_to_own_parts(Told& told, const Snapshot& snapshot, const std::vector<std::string>& texts,
                      const std::vector<int>& leaders, int own) {
  for (const int rank : told.writers) {
    const auto at = static_cast<size_t>(rank);
    if (own != 0 && rank != own && leaders[at] >= snapshot.leader) continue;
    told.held.push_back({leaders[at], {rank, decode_contribution(texts[at])}});
  }
  std::vector<OwnParts> parts = keep_own_parts(told.held);
  for (size_t i = 0; i < parts.size(); ++i) {
    if (told.held[i].contribution.rank == own) told.own = std::move(parts[i]);
  }
}

// A collective.
Told tell_contributions(collectives::Group& group, const SaveTarget& target, const Snapshot& snapshot) {
  const bool is_told = snapshot.has_file && (group.rank() > 0 || snapshot.has_others);
  const torch::Tensor facts = torch::tensor({int64_t{snapshot.has_file}, int64_t{snapshot.leader}}, torch::kLong);
  Told told;
  std::vector<int> leaders;
  for (const torch::Tensor& one : group.all_gather(facts)) {
    const auto* theirs = one.const_data_ptr<int64_t>();
    if (theirs[0] != 0) told.writers.push_back(static_cast<int>(leaders.size()));
    leaders.push_back(static_cast<int>(theirs[1]));
  }
  const std::vector<std::string> texts = all_gather_texts(group, is_told ? encode(snapshot.manifest) : "");
  if (snapshot.has_others) {
    all_succeed(group, target.what, [&] { cut_to_own_parts(told, snapshot, texts, leaders, group.rank()); });
  } else if (group.rank() == 0) {
    for (const int rank : told.writers) {
      const std::string& text = texts[static_cast<size_t>(rank)];
      told.held.push_back({0, {rank, rank == 0 ? snapshot.manifest : decode_contribution(text)}});
    }
  }
  return told;
}

// The parts of its pieces that this rank writes.
void cut_tensors(Snapshot& snapshot, const OwnParts& own) {
  NamedTensors tensors;
  for (size_t i = 0; i < snapshot.tensors.size(); ++i) {
    auto& [name, tensor] = snapshot.tensors[i];
    const FileTensor of = i < snapshot.of.size() ? snapshot.of[i] : FileTensor{};
    if (of.parameter.empty()) {
      const bool is_buffer = name.starts_with(kBuffer);  // or a generator's states
      if (!is_buffer || own.buffers.contains(name.substr(std::string(kBuffer).size()))) {
        tensors.emplace_back(name, tensor);
      }
      continue;
    }
    std::vector<torch::Tensor> parts;
    for (const Segment& segment : own.segments.at(of.parameter)) {
      parts.push_back(
          part_of({.kind = {}, .parameter = 0, .tensor = tensor, .numel_each = of.numel_each}, segment).tensor);
    }
    if (!parts.empty()) tensors.emplace_back(name, parts.size() == 1 ? parts[0] : torch::cat(parts));
  }
  snapshot.tensors = std::move(tensors);
}

// On rank 0. `written`: by rank.
Manifest join_contributions(const Snapshot& snapshot, Told& told, const std::vector<WrittenFile>& written) {
  std::vector<Contribution> all;
  std::vector<WrittenFile> files;
  for (HeldParts& one : told.held) {
    files.push_back(written[static_cast<size_t>(one.contribution.rank)]);
    all.push_back(std::move(one.contribution));
  }
  Manifest& first = all.at(0).manifest;  // a text has the parameters and the buffers alone
  first.step = snapshot.manifest.step;
  first.notes = snapshot.manifest.notes;
  first.generators = snapshot.manifest.generators;
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
  Told told = tell_contributions(group, target, snapshot);
  const NamedTensors generators = gather_states(group, snapshot.generators);
  snapshot.tensors.insert(snapshot.tensors.end(), generators.begin(), generators.end());
  const std::filesystem::path path = tell_path(group, target.directory, partial);
  WrittenFile own;
  all_succeed(group, target.what, [&] {
    if (!snapshot.has_file) return;
    if (snapshot.has_others) cut_tensors(snapshot, told.own);
    const std::string name = shard_file_name(group.rank(), told.writers.back() + 1);
    own = write_safetensors(path / name, snapshot.tensors, {{"format", "pt"}}, Hashes::InHeader);
    snapshot.tensors.clear();
    file_written();
  });
  const std::vector<WrittenFile> written = tell_all(group, own);
  all_succeed(group, target.what, [&] {
    if (!first) return;
    write_manifest(path, join_contributions(snapshot, told, written));
    partial->commit();
    partial.reset();  // the next job may save there as soon as any rank goes on
  });
}

}  // namespace fsdp::checkpoint
