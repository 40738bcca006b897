#include "data/pending_folder.h"

#include <fmt/format.h>
#include <fsdp/error.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "files/durable_file.h"

namespace data {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kPartial = ".partial-";

fs::path without_trailing_slash(const fs::path& path) { return path.has_filename() ? path : path.parent_path(); }

[[noreturn]] void cannot_be_made(const fs::path& folder, const std::string& reason) {
  throw fsdp::Error(fmt::format("folder '{}' cannot be made: {}.", folder.string(), reason));
}

// A new folder beside the target: existing ones belong to other processes.
fs::path make_beside(const fs::path& target) {
  constexpr int kMostTries = 100;
  std::error_code error;
  const fs::path parent = fsdp::files::parent_of(target);
  fs::create_directories(parent, error);
  if (error) cannot_be_made(parent, error.message());
  for (int number = 1;; ++number) {
    const fs::path path =
        fmt::format("{}{}{}{}", target.string(), kPartial, getpid(), number == 1 ? "" : fmt::format("-{}", number));
    if (mkdir(path.c_str(), 0777) == 0) return path;
    if (errno != EEXIST || number == kMostTries) cannot_be_made(path, std::strerror(errno));
  }
}

bool is_number(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

PendingFolder::PendingFolder(const fs::path& target) : target_(without_trailing_slash(target)) {
  std::error_code error;
  const fs::file_status found = fs::symlink_status(target_, error);
  if (fs::exists(found) && !(fs::is_directory(found) && fs::is_empty(target_, error))) {
    throw fsdp::Error(fmt::format("'{}' is there already, and nothing is overwritten. Remove it, or name another.",
                                  target_.string()));
  }
  path_ = make_beside(target_);
}

PendingFolder::~PendingFolder() {
  std::error_code ignored;
  if (!committed_) fs::remove_all(path_, ignored);
}

void PendingFolder::commit() {
  fsdp::files::sync_directory(path_);
  if (std::rename(path_.c_str(), target_.c_str()) != 0) {
    const bool is_there = errno == EEXIST || errno == ENOTEMPTY || errno == ENOTDIR;
    if (is_there) {
      throw fsdp::Error(
          fmt::format("folder '{}' cannot be put in place: another program has made it meanwhile, and "
                      "nothing is overwritten. Remove it, or name another.",
                      target_.string()));
    }
    throw fsdp::Error(fmt::format("folder '{}' cannot be put in place: {}.", target_.string(), std::strerror(errno)));
  }
  committed_ = true;
  fsdp::files::sync_directory(fsdp::files::parent_of(target_));
}

std::string pending_target(const std::string& name) {
  const size_t mark = name.rfind(kPartial);
  if (mark == std::string::npos) return "";
  const std::string_view numbers = std::string_view(name).substr(mark + kPartial.size());
  const size_t dash = numbers.find('-');
  const bool is_pending =
      is_number(numbers.substr(0, dash)) && (dash == std::string_view::npos || is_number(numbers.substr(dash + 1)));
  return is_pending ? name.substr(0, mark) : "";
}

}  // namespace data
