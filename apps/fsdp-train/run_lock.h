// One process at a time in a run folder.
#pragma once

#include <filesystem>

namespace trainer {

// An advisory lock on RUN/lock, which names its holder. The kernel gives it back when the process dies; a file system
// without locks has none.
class RunLock {
 public:
  // Makes the folder where there is none. Throws fsdp::Error where another process holds the lock, or the folder cannot
  // be written.
  explicit RunLock(const std::filesystem::path& run);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  int descriptor_;
};

}  // namespace trainer
