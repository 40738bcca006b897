#include "run_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fsdp/error.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstring>
#include <string>
#include <thread>

namespace trainer {

namespace fs = std::filesystem;

namespace {

std::string own_name() {
  std::array<char, HOST_NAME_MAX + 1> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  return fmt::format("process {} on {}", getpid(), host.data());
}

// What the holder has written; it may be about to.
std::string holder_of(int descriptor) {
  std::array<char, 256> text{};
  const ssize_t count = pread(descriptor, text.data(), text.size() - 1, 0);
  return count > 0 ? std::string(text.data(), static_cast<size_t>(count)) : "another process";
}

int open_lock(const fs::path& run) {
  std::error_code error;
  fs::create_directories(run, error);
  if (error) throw fsdp::Error(fmt::format("run folder '{}' cannot be made: {}.", run.string(), error.message()));
  const int descriptor = open((run / "lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor >= 0) return descriptor;
  throw fsdp::Error(fmt::format("run folder '{}' cannot be written: {}.", run.string(), std::strerror(errno)));
}

bool write_name(int descriptor) {
  const std::string name = own_name();
  return ftruncate(descriptor, 0) == 0 &&
         pwrite(descriptor, name.data(), name.size(), 0) == static_cast<ssize_t>(name.size());
}

bool take(int descriptor) {
  using Clock = std::chrono::steady_clock;
  // A run that was killed may be started again before the last of its processes is gone.
  const Clock::time_point patience_ends = Clock::now() + std::chrono::seconds(2);
  while (flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return true;  // the file system has no locks
    if (Clock::now() >= patience_ends) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

}  // namespace

RunLock::RunLock(const fs::path& run) : descriptor_(open_lock(run)) {
  if (!take(descriptor_)) {
    const std::string holder = holder_of(descriptor_);
    close(descriptor_);
    throw fsdp::Error(
        fmt::format("run folder '{}' is in use by {}. Wait until that run has ended, or name another --run.",
                    run.string(), holder));
  }
  write_name(descriptor_);  // on a full disk it has none, and holds all the same
}

RunLock::~RunLock() { close(descriptor_); }

}  // namespace trainer
