#include "checkpoints.h"

#include <fmt/format.h>
#include <fsdp/error.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

namespace trainer {

namespace fs = std::filesystem;

namespace {

constexpr const char* kManifest = "manifest.json";  // without it a folder is no checkpoint

std::optional<int64_t> step_of(const fs::path& folder) {
  constexpr std::string_view kPrefix = "step-";
  const std::string name = folder.filename().string();
  if (!name.starts_with(kPrefix)) return std::nullopt;
  int64_t step = 0;
  const char* end = name.data() + name.size();
  const auto [rest, error] = std::from_chars(name.data() + kPrefix.size(), end, step);
  std::error_code ignored;
  if (error != std::errc() || rest != end || !fs::is_regular_file(folder / kManifest, ignored)) return std::nullopt;
  return step;
}

void remove_checkpoint(const fs::path& checkpoint) {
  std::error_code error;
  fs::remove(checkpoint / kManifest, error);
  if (!error) fs::remove_all(checkpoint, error);
  if (error) {
    throw fsdp::Error(
        fmt::format("the old checkpoint '{}' cannot be removed: {}.", checkpoint.string(), error.message()));
  }
}

}  // namespace

std::vector<fs::path> checkpoints_of(const fs::path& run) {
  std::vector<std::pair<int64_t, fs::path>> found;
  std::error_code error;
  fs::directory_iterator entry(run, error);
  if (error == std::errc::no_such_file_or_directory) return {};
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    if (const auto step = step_of(entry->path())) found.emplace_back(*step, entry->path());
  }
  if (error) throw fsdp::Error(fmt::format("run folder '{}' cannot be read: {}.", run.string(), error.message()));
  std::ranges::sort(found, std::greater());
  std::vector<fs::path> newest_first;
  for (auto& [step, path] : found) newest_first.push_back(std::move(path));
  return newest_first;
}

void set_later_checkpoints_aside(const fs::path& run, int64_t step) {
  for (const fs::path& checkpoint : checkpoints_of(run)) {
    if (*step_of(checkpoint) <= step) return;  // they come newest first
    fs::path aside = checkpoint;
    aside += ".set-aside";
    std::error_code error;
    fs::remove_all(aside, error);
    fs::rename(checkpoint, aside, error);
    if (error) {
      throw fsdp::Error(
          fmt::format("the later checkpoint '{}' cannot be set aside: {}.", checkpoint.string(), error.message()));
    }
  }
}

void remove_old_checkpoints(const fs::path& run, int64_t keep) {
  if (keep == 0) return;
  const std::vector<fs::path> all = checkpoints_of(run);
  for (size_t i = static_cast<size_t>(keep); i < all.size(); ++i) remove_checkpoint(all[i]);
}

}  // namespace trainer
