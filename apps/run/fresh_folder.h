// The folder of a run that was given none: the next of run-1, run-2, ... in the current folder.
#pragma once

#include <string>

namespace trainer {

// Its name: a number above all that are there.
std::string next_run_folder();

// Makes it, and returns its name. Several callers at once each get their own. Throws fsdp::Error where it cannot be
// made.
std::string make_run_folder();

// Removes the folder when it is destroyed, if it is still empty then: that of a run that came to nothing.
class EmptyFolderGuard {
 public:
  EmptyFolderGuard() = default;
  ~EmptyFolderGuard();
  EmptyFolderGuard(const EmptyFolderGuard&) = delete;
  EmptyFolderGuard& operator=(const EmptyFolderGuard&) = delete;

  void watch(const std::string& folder) { folder_ = folder; }

 private:
  std::string folder_;
};

}  // namespace trainer
