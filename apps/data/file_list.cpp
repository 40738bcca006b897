#include "data/file_list.h"

#include <fmt/format.h>
#include <fsdp/error.h>

#include <limits>
#include <map>
#include <string>

#include "files/durable_file.h"
#include "files/json.h"
#include "files/printable.h"
#include "files/reading.h"

namespace data {

namespace fs = std::filesystem;
namespace files = fsdp::files;

namespace {

constexpr int64_t kMostListBytes = int64_t{1} << 20;

std::map<std::string, int64_t> read_list(const fs::path& folder) {
  const std::string path = (folder / kFileList).string(), name = fmt::format("file list '{}'", path);
  const files::Json json = files::read_json(path, name, kMostListBytes);
  if (!json.is_object() || !json.contains("files") || !json["files"].is_object() || json["files"].empty()) {
    throw fsdp::Error(fmt::format("{} is damaged: it has no object 'files' that names any.", name));
  }
  std::map<std::string, int64_t> found;
  for (const auto& [file, bytes] : json["files"].items()) {
    // Never a file of another folder.
    if (file.find('/') != std::string::npos || file.find('\0') != std::string::npos) {
      throw fsdp::Error(
          fmt::format("{} is damaged: '{}' is no name of a file in its folder.", name, files::printable(file)));
    }
    found[file] = files::whole_number(json["files"], file, name, 0, std::numeric_limits<int64_t>::max());
  }
  return found;
}

void refuse_link(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_symlink(path, ignored)) return;
  throw fsdp::Error(fmt::format("file '{}' is a symbolic link.", files::printable(path.string())));
}

void check_file(const fs::path& path, int64_t expected) {
  const std::string name = fmt::format("file '{}'", files::printable(path.string()));
  const int64_t found = files::open_regular(path, name).bytes;
  if (found == expected) return;
  throw fsdp::Error(fmt::format("{} has {} bytes, and {} beside it tells of {}. Write or copy it again.", name, found,
                                kFileList, expected));
}

}  // namespace

void write_file_list(const fs::path& folder) {
  std::map<std::string, int64_t> listed;
  try {
    for (const auto& entry : fs::directory_iterator(folder)) {
      listed[entry.path().filename().string()] = static_cast<int64_t>(entry.file_size());
    }
  } catch (const fs::filesystem_error& error) {
    throw fsdp::Error(fmt::format("folder '{}' cannot be listed: {}.", folder.string(), error.code().message()));
  }
  files::Json json;
  json["files"] = listed;
  files::write_durably(folder / kFileList, json.dump() + "\n");
}

void check_listed_files(const fs::path& folder, Links links) {
  if (links == Links::Refused) refuse_link(folder / kFileList);
  for (const auto& [name, bytes] : read_list(folder)) {
    if (links == Links::Refused) refuse_link(folder / name);
    check_file(folder / name, bytes);
  }
}

void check_listed_files_if_any(const fs::path& folder) {
  std::error_code ignored;
  if (fs::exists(fs::symlink_status(folder / kFileList, ignored))) check_listed_files(folder, Links::Followed);
}

}  // namespace data
