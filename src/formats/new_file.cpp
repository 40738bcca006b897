#include "formats/new_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "files/printable.h"

namespace fsdp::formats {

namespace {

namespace fs = std::filesystem;

constexpr const char* kAdvice = "Move it away, or name another target.";

fs::file_type type_of(const fs::path& path) {
  std::error_code ignored;
  return fs::symlink_status(path, ignored).type();
}

[[noreturn]] void fail_with(const fs::path& path, const char* what, int error) {
  throw_error(message_prefix() + fmt::format("{}: {}: {}", path.string(), what, std::strerror(error)));
}

void make_parent(const fs::path& target) {
  std::error_code error;
  fs::create_directories(files::parent_of(target), error);
  FSDP_CHECK(!error, "{}: cannot be made: {}", files::parent_of(target).string(), error.message());
}

// "folder/" is "folder".
fs::path without_slash(const fs::path& path) {
  const fs::path whole = fs::absolute(path).lexically_normal();
  return whole.filename().empty() ? whole.parent_path() : whole;
}

// Its plain files, and then itself, if nothing else is in it.
void remove_files_and_folder(const fs::path& folder) noexcept {
  std::error_code ignored;
  fs::directory_iterator entry(folder, ignored);
  for (; !ignored && entry != fs::directory_iterator(); entry.increment(ignored)) {
    if (type_of(entry->path()) == fs::file_type::regular) unlink(entry->path().c_str());
  }
  rmdir(folder.c_str());
}

}  // namespace

std::unique_ptr<files::ReplacedFile> new_file(const fs::path& target, Existing existing) {
  const fs::path path = without_slash(target);
  const fs::file_type found = type_of(path);
  FSDP_CHECK(found == fs::file_type::not_found || found == fs::file_type::regular,
             "{}: found a folder, a link or a device, expected a file or nothing. {}", path.string(), kAdvice);
  FSDP_CHECK(found == fs::file_type::not_found || existing == Existing::Replace, "{} is there already. {}",
             path.string(), kAdvice);
  make_parent(path);
  return std::make_unique<files::ReplacedFile>(path);
}

NewFolder::NewFolder(const fs::path& target, Existing existing, bool (*is_own)(const std::string&))
    : target_(without_slash(target)), existing_(existing), is_own_(is_own) {
  check_replaceable();
  make_parent(target_);
  std::string pattern = target_.string() + ".partial-XXXXXX";
  if (mkdtemp(pattern.data()) == nullptr) fail_with(pattern, "cannot be made", errno);
  path_ = pattern;
  const mode_t mask = umask(0);
  umask(mask);
  if (chmod(path_.c_str(), 0777 & ~mask) != 0) fail_with(path_, "cannot be made readable", errno);
}

NewFolder::~NewFolder() {
  if (!path_.empty()) remove_files_and_folder(path_);
}

void NewFolder::check_replaceable() const {
  const fs::file_type found = type_of(target_);
  if (found == fs::file_type::not_found) return;
  FSDP_CHECK(found == fs::file_type::directory, "{}: found a file or a link, expected a folder or nothing. {}",
             target_.string(), kAdvice);
  std::error_code error;
  fs::directory_iterator entry(target_, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    FSDP_CHECK(existing_ == Existing::Replace, "{} is there already, and is not empty. {}", target_.string(), kAdvice);
    const std::string name = entry->path().filename().string();
    FSDP_CHECK(type_of(entry->path()) == fs::file_type::regular && is_own_(name),
               "{}: found '{}' in it, which this format does not have, so it is not replaced. {}", target_.string(),
               files::printable(name), kAdvice);
  }
  FSDP_CHECK(!error, "{}: cannot be read: {}", target_.string(), error.message());
}

void NewFolder::commit() {
  files::sync_directory(path_);
  check_replaceable();  // what it is by now
  const bool is_there = type_of(target_) != fs::file_type::not_found;
  // Where the file system cannot exchange two names, the older folder has to make way first.
  if (!is_there || renameat2(AT_FDCWD, path_.c_str(), AT_FDCWD, target_.c_str(), RENAME_EXCHANGE) != 0) {
    if (is_there && errno != EINVAL) fail_with(target_, "cannot be replaced", errno);
    if (is_there) remove_files_and_folder(target_);
    if (std::rename(path_.c_str(), target_.c_str()) != 0) fail_with(target_, "cannot be put in place", errno);
    path_.clear();
  }
  files::sync_directory(files::parent_of(target_));
}

}  // namespace fsdp::formats
