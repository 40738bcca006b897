// One process at a time in a run folder.
#pragma once

#include <filesystem>
#include <memory>

#include "files/file_lock.h"

namespace trainer {

// A lock on RUN/lock, which names its holder. The kernel gives it back when the process dies; files/file_lock.h says
// how it is where the file system has no locks.
class RunLock {
 public:
  // Makes the folder where there is none. Throws files::LockHeld where another process holds the lock; fsdp::Error
  // where the folder cannot be written.
  explicit RunLock(const std::filesystem::path& run);

  // True if the path still leads to the folder that the run locked, whatever files are left in it.
  bool has_same_folder() const;
  // True if others see it: the file or the folder may have been removed or moved.
  bool is_in_place() const { return lock_->is_in_place(); }
  // Takes the lock again where it is not in place, and makes the folder for it. Throws as the constructor does; then
  // all is as it was.
  void restore();

 private:
  std::filesystem::path run_;
  std::unique_ptr<fsdp::files::FileLock> lock_;
  fsdp::files::Descriptor folder_;  // open, so that no other folder gets its number
};

}  // namespace trainer
