// A checkpoint's directory, from the first file to the place of an older one.
#pragma once

#include <filesystem>

#include "files/file_lock.h"

namespace fsdp::checkpoint {

// The directory that a checkpoint is written to, beside its target, and the right to do so: one process at a time saves
// to a target. Only checkpoints of ours, and empty directories, are ever replaced; nothing else is ever removed. Owned
// by the rank that commits; the other ranks of the job write into `path()` meanwhile, whose name nobody had before: a
// rank of a job that died may go on writing for a moment, into its own. Throws Error.
class PartialDirectory {
 public:
  // Makes the parents of `target`, too, where they are missing. What a process left that died while it saved to the
  // same target is tidied away first, and the older checkpoint put back where that process had moved it aside. The
  // parents' names are on the disk then.
  explicit PartialDirectory(const std::filesystem::path& target);
  // Removes the directory, unless it was committed.
  ~PartialDirectory();
  PartialDirectory(const PartialDirectory&) = delete;
  PartialDirectory& operator=(const PartialDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }

  // Puts the directory, complete and synced, in the place of `target`, and syncs: after a crash at any moment `target`
  // is the old one, the new one, or, where the file system cannot exchange names, absent with the old one beside it, as
  // TARGET.partial-replaced, from where the next save puts it back. Where the disk does not take it, the old one has
  // its place again, and the new one stays beside it until the next save: nobody knows which of them the disk has
  // there.
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
