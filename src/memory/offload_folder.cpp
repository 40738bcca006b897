#include "memory/offload_folder.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <limits>
#include <utility>

#include "base/error.h"

namespace fsdp::memory {

namespace {

namespace fs = std::filesystem;

// A job that ended a moment ago may still be on its way out.
constexpr std::chrono::seconds kPatience{1};

void make(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  FSDP_CHECK(
      !error && fs::is_directory(folder, error),
      "offload_directory: the folder '{}' cannot be made: {}. Name one that this rank may write, on a local disk.",
      folder.string(), error ? error.message() : "something else has its name");
}

size_t free_bytes(int descriptor) {
  struct statvfs disk {};
  return fstatvfs(descriptor, &disk) == 0 ? disk.f_bavail * disk.f_frsize : 0;
}

size_t largest_file() {
  rlimit limit{};
  const bool is_limited = getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  return is_limited ? limit.rlim_cur : std::numeric_limits<size_t>::max();
}

}  // namespace

OffloadFolder::OffloadFolder(fs::path folder, int rank) : path_(std::move(folder)), rank_(rank) {
  make(path_);
  try {
    lock_.emplace(path_ / fmt::format("rank-{}.lock", rank_), kPatience);
  } catch (const files::LockHeld& held) {
    throw_error(
        fmt::format("{}offload_directory: the folder '{}' is in use by {}, and two jobs cannot share one. Name "
                    "another folder. {}",
                    message_prefix(), path_.string(), held.holder(), held.what()));
  } catch (const Error& error) {
    throw_error(fmt::format("{}offload_directory: {} Name a folder that this rank may write, on a local disk.",
                            message_prefix(), error.what()));
  }
}

// The name is of use for an instant; a process that was killed in it may have left one.
files::Descriptor OffloadFolder::new_file() const {
  const fs::path path = path_ / fmt::format("rank-{}.pages-{}", rank_, files_made_++);
  unlink(path.c_str());
  files::Descriptor file(open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  FSDP_CHECK(file.is_open(),
             "offload_directory: a file in '{}' cannot be made: {}. Name a folder that this rank may write, on a local "
             "disk.",
             path_.string(), std::strerror(errno));
  unlink(path.c_str());
  return file;
}

void OffloadFolder::reserve(int descriptor, size_t offset, size_t bytes) const {
  const size_t most = largest_file();  // the system would not refuse: it would send SIGXFSZ
  FSDP_CHECK(offset + bytes <= most,
             "offload_directory: found a limit of {} bytes on the size of files, expected at least {}. Raise the limit "
             "(ulimit -f).",
             most, offset + bytes);
  if (bytes == 0) return;
  int refused = 0;
  do {
    refused = posix_fallocate(descriptor, static_cast<off_t>(offset), static_cast<off_t>(bytes));
  } while (refused == EINTR);
  if (refused == 0) return;
  const size_t free = free_bytes(descriptor);
  // Some of them may have been found.
  (void)!fallocate(descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                   static_cast<off_t>(bytes));
  FSDP_CHECK(false,
             "offload_directory: '{}' has no room for {} more bytes: {} ({} bytes are free). Free some space, name a "
             "folder on another disk, or shard over more ranks.",
             path_.string(), bytes, std::strerror(refused), free);
}

}  // namespace fsdp::memory
