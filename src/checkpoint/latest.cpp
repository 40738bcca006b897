// The newest checkpoint of a directory that is complete, and the newest that can be loaded.
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/error.h"
#include "checkpoint/background_saves.h"
#include "checkpoint/comparison.h"
#include "checkpoint/contents.h"
#include "checkpoint/manifest.h"
#include "checkpoint/partial_directory.h"
#include "checkpoint/shard_file.h"
#include "engine/model.h"
#include "fsdp/checkpoint.h"

namespace fsdp {

namespace {

namespace fs = std::filesystem;

// The directories directly under `directory` that a checkpoint may lie in, with its name.
std::vector<std::pair<fs::path, fs::path>> places_in(const fs::path& directory) {
  std::vector<std::pair<fs::path, fs::path>> places;
  std::error_code error;
  fs::directory_iterator entry(directory, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    std::error_code ignored;  // of a loop of links, say
    const fs::path target = checkpoint::target_of(entry->path());
    if (!entry->is_directory(ignored) || target.filename().string().find(".partial") != std::string::npos) continue;
    if (checkpoint::place_of(target) == entry->path()) places.emplace_back(entry->path(), target);
  }
  return places;
}

// The step of a checkpoint whose files all have the saved size and header. Throws Error otherwise.
int64_t step_of_complete(const fs::path& directory) {
  const checkpoint::Manifest saved = checkpoint::read_manifest(directory);
  for (size_t i = 0; i < saved.files.size(); ++i) {
    checkpoint::WrittenFile file = saved.files[i];
    if (saved.version == 2) file.hash.clear();  // of all its bytes
    checkpoint::ShardFile(directory / checkpoint::file_name(saved, static_cast<int>(i)), file);
  }
  return saved.step;
}

// True if a checkpoint lies there, or what is left of one.
bool has_files_of_checkpoint(const fs::path& place) {
  std::error_code error;
  fs::directory_iterator entry(place, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    if (checkpoint::is_file_of_checkpoint(entry->path().filename().string())) return true;
  }
  return false;
}

// The newest first. One whose manifest is damaged may be the newest of all.
std::vector<fs::path> newest_first(const fs::path& directory) {
  std::vector<std::pair<int64_t, fs::path>> found;
  for (const auto& [place, target] : places_in(directory)) {
    if (!has_files_of_checkpoint(place)) continue;
    int64_t step = std::numeric_limits<int64_t>::max();
    try {
      step = checkpoint::read_manifest(place).step;
    } catch (const Error&) {
      // loading it says what is wrong
    }
    found.emplace_back(step, target);
  }
  std::ranges::sort(found, std::greater());
  std::vector<fs::path> targets;
  for (auto& [step, target] : found) targets.push_back(std::move(target));
  return targets;
}

// Rank 0's text on every rank. A collective.
std::string text_of_rank0(collectives::Group& group, const std::string& text) {
  torch::Tensor size = torch::tensor({static_cast<int64_t>(text.size())});
  group.broadcast_(size, 0);
  torch::Tensor bytes = torch::empty({size.item<int64_t>()}, torch::kUInt8);
  if (group.rank() == 0) std::ranges::copy(text, static_cast<char*>(bytes.mutable_data_ptr()));
  if (bytes.numel() > 0) group.broadcast_(bytes, 0);
  return {static_cast<const char*>(bytes.const_data_ptr()), static_cast<size_t>(bytes.numel())};
}

}  // namespace

std::optional<fs::path> latest_checkpoint(const fs::path& directory) {
  std::optional<fs::path> latest;
  int64_t step = -1;
  for (const auto& [place, target] : places_in(directory)) {
    try {
      const int64_t found = step_of_complete(place);
      if (found > step) latest = target, step = found;
    } catch (const Error&) {
      // not a checkpoint, or not a whole one
    }
  }
  return latest;
}

std::optional<LoadedCheckpoint> load_latest_checkpoint(const fs::path& directory, const Checkpoint& checkpoint,
                                                       const LoadOptions& options) {
  FSDP_CHECK(checkpoint.model != nullptr, "load_latest_checkpoint: the model is missing; set .model = &sharded");
  checkpoint::check_told("load_latest_checkpoint", options.strict, options.differences);
  engine::Model& model = checkpoint.model->model();
  checkpoint::finish_background_saves(model);  // it may be the newest
  const checkpoint::CheckpointRanks ranks(model, checkpoint.mesh);
  std::vector<fs::path> own;  // of rank 0
  ranks.all_succeed("load_latest_checkpoint " + directory.string(), [&] {
    if (ranks.rank() == 0) own = newest_first(directory);
  });
  std::vector<std::string> problems;
  for (size_t i = 0;; ++i) {
    std::string next;
    ranks.run("load_latest_checkpoint",
              [&](collectives::Group& group) { next = text_of_rank0(group, i < own.size() ? own[i].string() : ""); });
    if (next.empty()) break;
    try {
      const int64_t step = load_checkpoint(next, checkpoint, options);
      return LoadedCheckpoint{.directory = next, .step = step, .passed_over = std::move(problems)};
    } catch (const Error& error) {
      problems.emplace_back(error.what());
    }
  }
  FSDP_CHECK(problems.empty(), "load_latest_checkpoint: none of the {} checkpoints in '{}' can be loaded:\n    {}",
             problems.size(), directory.string(), fmt::join(problems, "\n    "));
  return std::nullopt;
}

}  // namespace fsdp
