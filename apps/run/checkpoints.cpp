#include "run/checkpoints.h"

#include <fmt/format.h>
#include <fsdp/error.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>

#include "files/durable_file.h"
#include "files/file_lock.h"
#include "files/partial_names.h"
#include "metrics/set_aside.h"
#include "run/checkpoint_folder.h"
#include "run/collect_problems.h"

namespace trainer {

namespace fs = std::filesystem;
namespace files = fsdp::files;

namespace {

constexpr const char* kAside = ".set-aside-";

// Without a manifest a folder is no checkpoint; one that is damaged is named where it is loaded.
bool has_manifest(const fs::path& folder) {
  std::error_code ignored;
  return fs::is_regular_file(folder / "manifest.json", ignored);
}

// A folder that may not be read is taken to.
bool holds_anything(const fs::path& folder) {
  std::error_code error;
  return fs::is_directory(folder, error) && (!fs::is_empty(folder, error) || error);
}

// Entries of a checkpoint's name that `are_wanted`, the newest first.
std::vector<fs::path> steps_in(const fs::path& run, bool (*are_wanted)(const fs::path&)) {
  std::vector<std::pair<int64_t, fs::path>> found;
  std::error_code error;
  fs::directory_iterator entry(run, error);
  if (error == std::errc::no_such_file_or_directory) return {};
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    const auto step = step_in_name(entry->path());
    if (step && are_wanted(entry->path())) found.emplace_back(*step, entry->path());
  }
  if (error) throw fsdp::Error(fmt::format("run folder '{}' cannot be read: {}.", run.string(), error.message()));
  std::ranges::sort(found, std::greater());
  std::vector<fs::path> newest_first;
  for (auto& [step, path] : found) newest_first.push_back(std::move(path));
  return newest_first;
}

// Bytes of the end of `name` that say what it is beside a checkpoint; 0: it is nothing of that kind.
size_t suffix_bytes(std::string_view name) {
  for (const std::string_view suffix : {files::kPartialLockSuffix, files::kPartialReplacedSuffix}) {
    if (name.ends_with(suffix)) return suffix.size();
  }
  if (name.size() < files::kPartialSuffixBytes) return 0;
  name.remove_prefix(name.size() - files::kPartialSuffixBytes);
  return name.starts_with(files::kPartialSuffix) ? name.size() : 0;
}

// The checkpoint that `name`, of something beside it, belongs to; empty: none.
std::string name_of_checkpoint(const std::string& name) {
  const size_t bytes = suffix_bytes(name);
  const std::string base = name.substr(0, name.size() - bytes);
  return bytes > 0 && (base == "best" || step_in_name(base)) ? base : "";
}

void tidy(const fs::path& run, const fs::path& leftover, const fs::path& checkpoint) {
  std::error_code error;
  const std::string name = leftover.filename().string();
  if (name.ends_with(files::kPartialLockSuffix)) {
    if (fs::is_regular_file(fs::symlink_status(leftover, error))) fs::remove(leftover, error);
    return;
  }
  if (!holds_checkpoint_files_only(leftover)) return;
  const bool is_moved_aside =
      name.ends_with(files::kPartialReplacedSuffix) && !fs::exists(fs::symlink_status(checkpoint, error));
  if (is_moved_aside) fs::rename(leftover, checkpoint, error);
  files::sync_directory(run);  // the disk may know it by another name still
  if (!is_moved_aside) remove_files_of_checkpoint(leftover);
}

}  // namespace

std::vector<fs::path> checkpoints_of(const fs::path& run) { return steps_in(run, has_manifest); }

std::vector<fs::path> checkpoints_and_remains_of(const fs::path& run) { return steps_in(run, holds_anything); }

std::string cannot_be_loaded(const fs::path& checkpoint, const std::string& why) {
  return fmt::format("{} cannot be loaded: {}", checkpoint.string(), why);
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

void tidy_after_crash(const fs::path& run) {
  std::vector<std::pair<fs::path, fs::path>> leftovers;  // and their checkpoints
  std::error_code error;
  fs::directory_iterator entry(run, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    const std::string checkpoint = name_of_checkpoint(entry->path().filename().string());
    if (!checkpoint.empty()) leftovers.emplace_back(entry->path(), run / checkpoint);
  }
  for (const auto& [leftover, checkpoint] : leftovers) {
    if (files::is_lock_held(checkpoint.string() + std::string(files::kPartialLockSuffix))) continue;
    try {
      tidy(run, leftover, checkpoint);
    } catch (const fsdp::Error&) {
      // it is tried again at the next start
    }
  }
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
