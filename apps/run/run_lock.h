// One process at a time in a run folder.
#pragma once

#include <filesystem>
#include <optional>

#include "files/file_lock.h"

namespace trainer {

// A lock on RUN/lock, which names its holder. The kernel gives it back when the process dies; files/file_lock.h says
// how it is where the file system has no locks.
class RunLock {
 public:
  // Makes the folder where there is none. Throws files::LockHeld where another process holds the lock; fsdp::Error
  // where the folder cannot be written.
  explicit RunLock(const std::filesystem::path& run);

  // Where somebody removed the folder, or moved it away: makes it again, and takes the lock there. Throws as the
  // constructor does.
  void restore();

 private:
  std::filesystem::path run_;
  std::optional<fsdp::files::FileLock> lock_;  // none where `restore` failed
};

}  // namespace trainer
