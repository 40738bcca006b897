#include "files/file_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <thread>

#include "files/printable.h"
#include "files/same_file.h"

namespace fsdp::files {

namespace {

std::string own_name() {
  std::array<char, HOST_NAME_MAX + 1> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  return fmt::format("process {} on {}", getpid(), host.data());
}

// The holder's text; it may be about to write it.
std::string holder_of(const Descriptor& file) {
  std::array<char, 256> text{};
  const ssize_t count = pread(file.number(), text.data(), text.size(), 0);
  return count > 0 ? printable({text.data(), static_cast<size_t>(count)}) : "another process";
}

// On a full disk the holder has no name, and holds all the same.
void write_own_name(const Descriptor& file) {
  const std::string name = own_name();
  if (ftruncate(file.number(), 0) == 0) (void)!pwrite(file.number(), name.data(), name.size(), 0);
}

bool has_no_locks(int error) {
  return error == ENOSYS || error == ENOTSUP || error == EOPNOTSUPP || error == ENOLCK || error == EINVAL;
}

}  // namespace

FileLock::FileLock(const std::filesystem::path& path, std::chrono::milliseconds patience) : path_(path) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point patience_ends = Clock::now() + patience;
  for (Outcome outcome; (outcome = try_to_take()) != Outcome::Taken;) {
    if (outcome == Outcome::Gone) continue;
    if (Clock::now() >= patience_ends) {
      const std::string holder = holder_of(descriptor_);
      throw LockHeld(fmt::format("'{}' is held by {}. Wait until it has ended. If it is no longer there, and the file "
                                 "system has no locks, remove that file.",
                                 path_.string(), holder),
                     holder);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  write_own_name(descriptor_);
}

FileLock::Outcome FileLock::try_to_take() {
  const auto open_with = [&](int flags) {
    return Descriptor(open(path_.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | flags, 0644));
  };
  descriptor_ = open_with(O_CREAT | O_EXCL);
  const bool is_new = descriptor_.is_open(), was_there = !is_new && errno == EEXIST;
  if (was_there) descriptor_ = open_with(0);
  if (!descriptor_.is_open()) {
    if (was_there && errno == ENOENT) return Outcome::Gone;  // between the two
    throw Error(fmt::format("the lock '{}' cannot be taken: {}.", path_.string(),
                            errno == ELOOP ? "it is a symbolic link" : std::strerror(errno)));
  }
  if (flock(descriptor_.number(), LOCK_EX | LOCK_NB) == 0) {
    // A holder that ends removes its file. A process that has opened it before then holds an invisible lock.
    return is_in_place() ? Outcome::Taken : Outcome::Gone;
  }
  const int error = errno;
  if (has_no_locks(error)) return is_new ? Outcome::Taken : Outcome::Held;
  if (error == EWOULDBLOCK) return Outcome::Held;
  if (is_new) unlink(path_.c_str());
  throw Error(fmt::format("the lock '{}' cannot be taken: {}.", path_.string(), std::strerror(error)));
}

bool is_lock_held(const std::filesystem::path& path) {
  const Descriptor file(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file.is_open()) return false;
  // A shared lock, given back as the file is closed.
  if (flock(file.number(), LOCK_SH | LOCK_NB) == 0) return false;
  return errno == EWOULDBLOCK || has_no_locks(errno);
}

bool FileLock::is_in_place() const { return leads_to(path_, descriptor_.number()); }

// If the file was removed, the file at the path may be another holder's.
FileLock::~FileLock() {
  if (is_in_place()) unlink(path_.c_str());
}

}  // namespace fsdp::files
