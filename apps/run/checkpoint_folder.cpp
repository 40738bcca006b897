#include "run/checkpoint_folder.h"

#include <fmt/format.h>
#include <fsdp/error.h>

#include <algorithm>
#include <charconv>
#include <regex>
#include <string>
#include <vector>

#include "files/durable_file.h"
#include "files/json.h"
#include "files/reading.h"
#include "metrics/fields.h"

namespace trainer {

namespace fs = std::filesystem;
using fsdp::files::Json;

namespace {

constexpr const char* kManifest = "manifest.json";
constexpr int64_t kMostShards = 1024;  // as many ranks as --ranks may be

std::string name_of_manifest(const fs::path& folder) {
  return fmt::format("manifest '{}'", (folder / kManifest).string());
}

Json read_manifest(const fs::path& folder) {
  constexpr int64_t kMostBytes = int64_t{1} << 28;
  return fsdp::files::read_json(folder / kManifest, name_of_manifest(folder), kMostBytes);
}

bool is_ours(const Json& manifest) {
  const auto format = manifest.is_object() ? manifest.find("format") : manifest.end();
  return manifest.is_object() && format != manifest.end() && *format == "fsdp-checkpoint";
}

std::string shard_file(int64_t shard, int64_t shards) {
  return fmt::format("shard-{:05}-of-{:05}.safetensors", shard + 1, shards);
}

bool belongs_to_checkpoint(const fs::path& entry) {
  static const std::regex shard("shard-[0-9]{5,}-of-[0-9]{5,}\\.safetensors");
  const std::string name = entry.filename().string();
  std::error_code ignored;
  return (name == kManifest || std::regex_match(name, shard)) &&
         fs::symlink_status(entry, ignored).type() != fs::file_type::directory;
}

void remove_file(const fs::path& file) {
  std::error_code error;
  fs::remove(file, error);
  if (error) throw fsdp::Error(fmt::format("'{}' cannot be removed: {}.", file.string(), error.message()));
}

std::vector<fs::path> entries_of(const fs::path& folder) try {
  return {fs::directory_iterator(folder), fs::directory_iterator()};
} catch (const fs::filesystem_error& error) {
  throw fsdp::Error(fmt::format("checkpoint '{}' cannot be read: {}.", folder.string(), error.code().message()));
}

}  // namespace

std::optional<int64_t> step_in_name(const fs::path& folder) {
  constexpr std::string_view kPrefix = "step-";
  const std::string name = (folder / "").parent_path().filename().string();  // it may end with a slash
  if (!name.starts_with(kPrefix)) return std::nullopt;
  int64_t step = 0;
  std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), step);
  if (step < 0 || step > kHighestStep || name != fmt::format("{}{}", kPrefix, step)) return std::nullopt;
  return step;
}

void check_step_in_name(const fs::path& folder, int64_t step) {
  const std::optional<int64_t> named = step_in_name(folder);
  if (!named || *named == step) return;
  throw fsdp::Error(
      fmt::format("checkpoint '{}' is damaged, or was renamed: its manifest says step {}. Go on from another one, or "
                  "give the folder a name of its own and name it with --checkpoint.",
                  folder.string(), step));
}

bool is_checkpoint(const fs::path& folder) try {
  std::error_code ignored;
  return fs::symlink_status(folder, ignored).type() == fs::file_type::directory && is_ours(read_manifest(folder));
} catch (const fsdp::Error&) {
  return false;
}

bool holds_checkpoint_files_only(const fs::path& folder) {
  std::error_code ignored;
  if (fs::symlink_status(folder, ignored).type() != fs::file_type::directory) return false;
  return std::ranges::all_of(entries_of(folder), belongs_to_checkpoint);
}

bool is_replaceable(const fs::path& folder) {
  return holds_checkpoint_files_only(folder) && (is_checkpoint(folder) || entries_of(folder).empty());
}

void check_shards(const fs::path& folder) {
  const Json manifest = read_manifest(folder);
  const std::string name = name_of_manifest(folder);
  if (!is_ours(manifest)) throw fsdp::Error(fmt::format("{} is of no checkpoint of this library.", name));
  const int64_t shards = fsdp::files::whole_number(manifest, "shards", name, 1, kMostShards);
  constexpr int64_t kHeaderBytes = 8;  // the least that a safetensors file has
  for (int64_t shard = 0; shard < shards; ++shard) {
    const fs::path file = folder / shard_file(shard, shards);
    const std::string name_of_file = fmt::format("file '{}', one of {} of its checkpoint,", file.string(), shards);
    if (fsdp::files::open_regular(file, name_of_file).bytes >= kHeaderBytes) continue;
    throw fsdp::Error(fmt::format("{} is too short to be one. Was it cut?", name_of_file));
  }
}

int64_t bytes_of_checkpoint(const fs::path& folder) try {
  int64_t bytes = 0;
  for (const fs::path& entry : entries_of(folder)) {
    std::error_code error;
    const uintmax_t size = belongs_to_checkpoint(entry) ? fs::file_size(entry, error) : 0;
    if (!error) bytes += static_cast<int64_t>(size);
  }
  return bytes;
} catch (const fsdp::Error&) {
  return 0;
}

void remove_checkpoint(const fs::path& folder) {
  if (!holds_checkpoint_files_only(folder)) return remove_files_of_checkpoint(folder);
  fs::path renamed = folder;
  renamed += ".partial-remove";
  std::error_code error;
  if (fs::exists(fs::symlink_status(renamed, error))) remove_files_of_checkpoint(renamed);  // a killed process left it
  fs::rename(folder, renamed, error);
  if (error) {
    throw fsdp::Error(fmt::format("the old checkpoint '{}' cannot be removed: {}.", folder.string(), error.message()));
  }
  fsdp::files::sync_directory(fsdp::files::parent_of(folder));
  remove_files_of_checkpoint(renamed);
}

void remove_files_of_checkpoint(const fs::path& folder) {
  const std::vector<fs::path> entries = entries_of(folder);
  remove_file(folder / kManifest);
  std::string others;
  for (const fs::path& entry : entries) {
    if (belongs_to_checkpoint(entry)) {
      remove_file(entry);
    } else {
      others += fmt::format("{}'{}'", others.empty() ? "" : ", ", entry.filename().string());
    }
  }
  if (others.empty()) return remove_file(folder);
  throw fsdp::Error(fmt::format("the old checkpoint '{}' is removed, but its folder stays: {} in it {} no part of it.",
                                folder.string(), others, others.find(", ") == std::string::npos ? "is" : "are"));
}

}  // namespace trainer
