#include "checkpoint/partial_directory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "checkpoint/manifest.h"
#include "files/durable_file.h"
#include "files/partial_names.h"
#include "files/printable.h"

namespace fsdp::checkpoint {

namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const fs::path& path, const char* what, int error) {
  throw_error(message_prefix() + fmt::format("{}: {}: {}", path.string(), what, std::strerror(error)));
}

// A save gives such names to what is unfinished, and removes what has them.
fs::path with_own_name(const fs::path& target) {
  const std::string name = target.filename().string();
  const bool is_partial = name.size() > files::kPartialSuffixBytes &&
                          name.substr(name.size() - files::kPartialSuffixBytes).starts_with(files::kPartialSuffix);
  FSDP_CHECK(
      !is_partial && !name.ends_with(files::kPartialReplacedSuffix) && !name.ends_with(files::kPartialLockSuffix),
      "{}: a save to '{}' uses such names for unfinished saves, and removes them. Choose another name.",
      target.string(), name.substr(0, name.rfind(".partial")));
  return target;
}

fs::path with_suffix(fs::path path, std::string_view suffix) { return path += suffix; }

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::symlink_status(path, ignored).type() != fs::file_type::not_found;
}

void put_in_place(const fs::path& from, const fs::path& to) {
  if (std::rename(from.c_str(), to.c_str()) != 0) fail(to, "cannot be put in place", errno);
}

// The files of a checkpoint that lie in `directory`. Throws Error where it is no directory, or holds anything else: who
// would remove it would lose that.
std::vector<fs::path> files_of_checkpoint(const fs::path& directory) {
  constexpr const char* kAdvice = "It is never replaced or removed: move it away, or save to another directory.";
  std::error_code error;
  FSDP_CHECK(fs::symlink_status(directory, error).type() == fs::file_type::directory,
             "{}: found a file or a link, expected a directory or nothing. {}", directory.string(), kAdvice);
  std::vector<fs::path> found;
  fs::directory_iterator entry(directory, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    std::error_code ignored;
    const bool is_file = entry->symlink_status(ignored).type() == fs::file_type::regular;
    FSDP_CHECK(is_file && is_file_of_checkpoint(name), "{}: found '{}' in it, which is not a checkpoint's file. {}",
               directory.string(), files::printable(name), kAdvice);
    found.push_back(entry->path());
  }
  FSDP_CHECK(!error, "{}: cannot be read: {}", directory.string(), error.message());
  return found;
}

// Throws Error where nothing may be put in its place.
void check_replaceable(const fs::path& target) {
  if (!is_there(target)) return;
  FSDP_CHECK(files_of_checkpoint(target).empty() || has_manifest(target),
             "{}: found a directory without the manifest of a checkpoint. It is not replaced: move it away, or save to "
             "another directory.",
             target.string());
}

// Files of a checkpoint alone are removed: one that came to lie between them keeps its directory.
void remove_checkpoint(const fs::path& directory) {
  if (!is_there(directory)) return;
  for (const fs::path& file : files_of_checkpoint(directory)) {
    if (unlink(file.c_str()) != 0 && errno != ENOENT) fail(file, "cannot be removed", errno);
  }
  if (rmdir(directory.c_str()) != 0) fail(directory, "cannot be removed", errno);
}

void try_to_remove_checkpoint(const fs::path& directory) noexcept {
  try {
    remove_checkpoint(directory);
  } catch (const std::exception&) {
    // It does no harm, and the next save to the same place tries again.
  }
}

// The lock's place, where its file can be made.
fs::path lock_of(const fs::path& target) {
  files::make_directories(files::parent_of(target));
  return with_suffix(target, files::kPartialLockSuffix);
}

// Directories of processes that died while they saved to `target`, whose lock this process holds. The disk may know one
// of them as `target` still: it has to know better before the first file goes.
void remove_leftovers(const fs::path& target) {
  const std::string beginning = target.filename().string().append(files::kPartialSuffix);
  std::vector<fs::path> leftovers;
  std::error_code error;
  fs::directory_iterator entry(files::parent_of(target), error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    const bool fits = name.size() == target.filename().string().size() + files::kPartialSuffixBytes;
    if (fits && name.starts_with(beginning)) leftovers.push_back(entry->path());
  }
  if (!leftovers.empty() || is_there(with_suffix(target, files::kPartialReplacedSuffix))) {
    files::sync_directory(files::parent_of(target));
  }
  for (const fs::path& leftover : leftovers) try_to_remove_checkpoint(leftover);
}

fs::path make_partial(const fs::path& target) {
  std::string pattern = target.string().append(files::kPartialSuffix) + "XXXXXX";
  if (mkdtemp(pattern.data()) == nullptr) fail(pattern, "cannot be made", errno);
  const mode_t mask = umask(0);
  umask(mask);
  if (chmod(pattern.c_str(), 0777 & ~mask) == 0) return pattern;
  const int error = errno;
  rmdir(pattern.c_str());
  fail(pattern, "cannot be made readable", error);
}

}  // namespace

PartialDirectory::PartialDirectory(const fs::path& target) try
    : target_(with_own_name(target)),
      aside_(with_suffix(target, files::kPartialReplacedSuffix)),
      lock_(lock_of(target)) {
  if (!is_there(target_) && is_there(aside_)) put_in_place(aside_, target_);
  check_replaceable(target_);
  remove_leftovers(target_);
  path_ = make_partial(target_);
} catch (const files::LockHeld& held) {
  FSDP_CHECK(false, "{}: {} is saving a checkpoint there. Give each job a directory of its own. ({})", target.string(),
             held.holder(), held.what());
}

PartialDirectory::~PartialDirectory() { try_to_remove_checkpoint(path_); }

void PartialDirectory::commit() {
  files::sync_directory(path_);
  check_replaceable(target_);  // what it is by now
  const Put how = put();
  try {
    files::sync_directory(files::parent_of(target_));
  } catch (...) {
    take_back(how);
    path_.clear();  // it stays
    throw;
  }
  try_to_remove_checkpoint(path_);  // what was replaced
  try_to_remove_checkpoint(aside_);
}

PartialDirectory::Put PartialDirectory::put() {
  if (!is_there(target_)) {
    put_in_place(path_, target_);
    return Put::InAFreePlace;
  }
  if (renameat2(AT_FDCWD, path_.c_str(), AT_FDCWD, target_.c_str(), RENAME_EXCHANGE) == 0) return Put::ByExchange;
  if (errno != EINVAL) fail(target_, "cannot be replaced", errno);
  remove_checkpoint(aside_);  // of a process that died before it did so
  put_in_place(target_, aside_);
  try {
    put_in_place(path_, target_);
  } catch (...) {
    put_in_place(aside_, target_);
    throw;
  }
  return Put::AfterTheOld;
}

void PartialDirectory::take_back(Put how) noexcept {
  const unsigned flags = how == Put::ByExchange ? RENAME_EXCHANGE : 0;
  if (renameat2(AT_FDCWD, target_.c_str(), AT_FDCWD, path_.c_str(), flags) != 0) return;
  if (how == Put::AfterTheOld) std::rename(aside_.c_str(), target_.c_str());
}

fs::path place_of(fs::path target) {
  if (target.filename().empty()) target = target.parent_path();  // "run/step-5/"
  const fs::path aside = with_suffix(target, files::kPartialReplacedSuffix);
  return !is_there(target) && is_checkpoint(aside) ? aside : target;
}

fs::path target_of(const fs::path& place) {
  const std::string path = place.string();
  return path.ends_with(files::kPartialReplacedSuffix)
             ? path.substr(0, path.size() - files::kPartialReplacedSuffix.size())
             : path;
}

}  // namespace fsdp::checkpoint
