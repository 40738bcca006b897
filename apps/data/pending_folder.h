// A folder that appears whole or not at all.
#pragma once

#include <filesystem>
#include <string>

namespace data {

// Files are written into path(), beside the target. commit() gives it the target's name; without that the destructor
// removes it. Only a process that is killed leaves it behind, as TARGET.partial-<its number>; where something lies
// under that name already, a number more follows: TARGET.partial-<its number>-2.
class PendingFolder {
 public:
  // Throws fsdp::Error when the target exists and is no empty folder, or when nothing can be made there.
  explicit PendingFolder(const std::filesystem::path& target);
  ~PendingFolder();
  PendingFolder(const PendingFolder&) = delete;
  PendingFolder& operator=(const PendingFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  // The files in it have to be on the disk already. Throws fsdp::Error if another process has made the target since.
  void commit();

 private:
  std::filesystem::path target_, path_;
  bool committed_ = false;
};

// The final name of a pending folder, or of a pending file of files::ReplacedFile. Empty for any other name.
std::string pending_target(const std::string& name);

}  // namespace data
