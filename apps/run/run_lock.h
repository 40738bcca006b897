// One process at a time in a run folder.
#pragma once

#include <filesystem>

#include "files/file_lock.h"

namespace trainer {

// A lock on RUN/lock, which names its holder. The kernel gives it back when the process dies; files/file_lock.h says
// how it is where the file system has no locks.
class RunLock {
 public:
  // Makes the folder where there is none. Throws fsdp::Error where another process holds the lock, or the folder cannot
  // be written.
  explicit RunLock(const std::filesystem::path& run);

 private:
  fsdp::files::FileLock lock_;
};

}  // namespace trainer
