#include "run/run_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fsdp/error.h>
#include <sys/stat.h>

namespace trainer {

namespace fs = std::filesystem;
using fsdp::files::FileLock;
using fsdp::files::LockHeld;

namespace {

std::unique_ptr<FileLock> locked(const fs::path& run) {
  constexpr const char* kName = "lock";
  // A run that was killed may be started again before the last of its processes is gone.
  constexpr std::chrono::seconds kPatience(2);
  std::error_code error;
  fs::create_directories(run, error);
  if (error) throw fsdp::Error(fmt::format("run folder '{}' cannot be made: {}.", run.string(), error.message()));
  try {
    return std::make_unique<FileLock>(run / kName, kPatience);
  } catch (const LockHeld& held) {
    throw LockHeld(
        fmt::format("run folder '{}' is in use by {}. Wait until that run has ended, or name another --run. If that "
                    "process is no longer there, and the file system has no locks, remove '{}'.",
                    run.string(), held.holder(), (run / kName).string()),
        held.holder());
  } catch (const fsdp::Error& failed) {
    throw fsdp::Error(fmt::format("run folder '{}' cannot be written: {}", run.string(), failed.what()));
  }
}

fsdp::files::Descriptor opened(const fs::path& folder) {
  return fsdp::files::Descriptor(open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
}

}  // namespace

RunLock::RunLock(const fs::path& run) : run_(run), lock_(locked(run)), folder_(opened(run)) {}

bool RunLock::has_same_folder() const {
  struct stat had {
  }, has{};
  return folder_.is_open() && fstat(folder_.number(), &had) == 0 && stat(run_.c_str(), &has) == 0 &&
         had.st_dev == has.st_dev && had.st_ino == has.st_ino;
}

void RunLock::restore() {
  if (is_in_place()) return;
  lock_ = locked(run_);
  folder_ = opened(run_);
}

}  // namespace trainer
