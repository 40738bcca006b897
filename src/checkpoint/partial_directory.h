// A checkpoint's directory, from the first file to the place of an older one.
#pragma once

#include <filesystem>

#include "files/file_lock.h"

namespace fsdp::checkpoint {

// The directory that a checkpoint is written to, beside its target, and the right to do so: one process at a time saves
// to a target. Only checkpoints of ours, and empty directories, are ever replaced; nothing else is ever removed. Owned
// by the rank that commits; the other ranks of the job write into `path()` meanwhile, whose name is new: a rank of a
// dead job may write into its own for another moment. Throws Error.
class PartialDirectory {
 public:
  // Makes the parents of `target`, too, where they are missing. First it removes the leftovers of a process that died
  // while it saved to the same target, and restores the older checkpoint if that process had moved it aside. The
  // parents' names are on the disk then.
  explicit PartialDirectory(const std::filesystem::path& target);
  // Removes the directory, unless it was committed.
  ~PartialDirectory();
  PartialDirectory(const PartialDirectory&) = delete;
  PartialDirectory& operator=(const PartialDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }

  // Puts the directory, complete and synced, in the place of `target`, and syncs. After a crash at any moment `target`
  // is the old or the new one. If the file system cannot exchange names, it may be absent, with the old one as
  // TARGET.partial-replaced, and the next save restores it. If the sync fails, the old one has its place again, and the
  // new one stays beside it until the next save: it is unknown which of them the disk has there.
  void commit();

 private:
  enum class Put { InAFreePlace, ByExchange, AfterTheOld };
  Put put();
  void take_back(Put how) noexcept;

  std::filesystem::path target_, aside_;
  files::FileLock lock_;
  std::filesystem::path path_;
};

// Where the checkpoint of that name lies: at its place, or where a process that was killed had moved it aside.
std::filesystem::path place_of(std::filesystem::path target);
// The name of the checkpoint that lies at `place`: that of one moved aside without its suffix.
std::filesystem::path target_of(const std::filesystem::path& place);

}  // namespace fsdp::checkpoint
