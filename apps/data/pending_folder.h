// A folder that appears whole or not at all.
#pragma once

#include <filesystem>

namespace data {

// Files are written into path(), beside the target. commit() gives it the target's name; without that the destructor
// removes it. Only a process that is killed leaves it behind, as TARGET.partial-<its number>.
class PendingFolder {
 public:
  // Throws fsdp::Error when the target exists and is no empty folder, or when nothing can be made there.
  explicit PendingFolder(std::filesystem::path target);
  ~PendingFolder();
  PendingFolder(const PendingFolder&) = delete;
  PendingFolder& operator=(const PendingFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  // The files in it have to be on the disk already. Throws fsdp::Error when somebody else has made the target since.
  void commit();

 private:
  std::filesystem::path target_, path_;
  bool committed_ = false;
};

// Syncs a folder's entries to the disk. Throws fsdp::Error.
void sync_folder(const std::filesystem::path& folder);

// A file in one go: a temporary name, synced, then its own. Throws fsdp::Error; what was there before then stays.
void write_durably(const std::filesystem::path& file, std::string_view bytes);

}  // namespace data
