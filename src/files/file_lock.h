// One process at a time: a lock on a file that names its holder.
//
// Errors are fsdp::Error and have no prefix: apps/ uses this room too.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>

#include "files/reading.h"
#include "fsdp/error.h"

namespace fsdp::files {

// Another process has the lock.
class LockHeld : public Error {
 public:
  LockHeld(const std::string& message, std::string holder) : Error(message), holder_(std::move(holder)) {}
  const std::string& holder() const { return holder_; }  // "process 4711 on gpu3"

 private:
  std::string holder_;
};

// Held from the constructor to the destructor, which removes the file if that is still at its path. The kernel gives
// the lock back when the process dies, and the file that is left is taken by the next one. If the file system has no
// locks, the file itself is the lock: no other process makes it while it exists. One that a killed process left there
// has to be removed by hand, and the message says so.
class FileLock {
 public:
  // Waits for `patience` for a holder that is about to end. Throws LockHeld; Error for a path that is a symbolic link
  // or cannot be written.
  explicit FileLock(const std::filesystem::path& path, std::chrono::milliseconds patience = {});
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

  // True if others see it: the file is at its path.
  bool is_in_place() const;

 private:
  // Gone: a holder that ended has removed the file meanwhile.
  enum class Outcome { Taken, Held, Gone };
  Outcome try_to_take();

  std::filesystem::path path_;
  Descriptor descriptor_;
};

// True if a process holds the lock. Does not take it. False where the file cannot be opened. A process that tries to
// take the lock at this moment, without waiting, may fail.
bool is_lock_held(const std::filesystem::path& path);

}  // namespace fsdp::files
