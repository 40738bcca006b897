#include "run/checkpoints.h"

#include <fmt/format.h>
#include <fsdp/error.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "metrics/set_aside.h"
#include "run/checkpoint_folder.h"
#include "run/collect_problems.h"

namespace trainer {

namespace fs = std::filesystem;

namespace {

constexpr const char* kAside = ".set-aside-";

// Without a manifest a folder is no checkpoint; one that is damaged is named where it is loaded.
std::optional<int64_t> step_of(const fs::path& folder) {
  std::error_code ignored;
  return fs::is_regular_file(folder / "manifest.json", ignored) ? step_in_name(folder) : std::nullopt;
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
    if (*step_in_name(checkpoint) <= step) return;  // they come newest first
    set_aside(checkpoint, kAside);
  }
}

std::string make_way_for(const fs::path& checkpoint) {
  std::error_code ignored;
  if (!fs::exists(fs::symlink_status(checkpoint, ignored)) || is_replaceable(checkpoint)) return "";
  return fmt::format("'{}' is no checkpoint that may be replaced; it is now '{}'.", checkpoint.string(),
                     set_aside(checkpoint, kAside).string());
}

RemovedCheckpoints remove_old_checkpoints(const fs::path& run, int64_t keep) {
  RemovedCheckpoints removed;
  if (keep == 0) return removed;
  std::vector<fs::path> own = checkpoints_of(run);
  if (own.size() <= static_cast<size_t>(keep)) return removed;
  std::erase_if(own, [](const fs::path& folder) { return !is_checkpoint(folder); });
  for (size_t i = static_cast<size_t>(keep); i < own.size(); ++i) {
    collect_problems(removed.problems, [&] {
      remove_checkpoint(own[i]);
      removed.folders.push_back(own[i]);
    });
  }
  return removed;
}

}  // namespace trainer
