// The folder that a model is offloaded to, and one rank's part in it.
//
// A file in it loses its name as it is made: it is gone with the last process that has it open or mapped, however that
// ends. So a killed job leaves nothing there but its locks, "rank-N.lock", which the next one takes over. Each rank has
// its own; two jobs that name one folder meet there. Any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>

#include "files/file_lock.h"
#include "files/reading.h"
#include "memory/background_reads.h"

namespace fsdp::memory {

class OffloadFolder {
 public:
  // Makes the folder where it is missing. Throws Error where that cannot be, where this rank cannot write, or where
  // another job has the folder.
  OffloadFolder(std::filesystem::path folder, int rank);

  const std::filesystem::path& path() const { return path_; }
  // A new, empty file, for reading and writing. Throws Error.
  files::Descriptor new_file() const;
  // Room for these bytes of such a file, so that no later write to them finds the disk full. Throws Error, with nothing
  // taken.
  void reserve(int descriptor, size_t offset, size_t bytes) const;
  // Reads of the files that were made in it.
  const std::shared_ptr<BackgroundReads>& reads() const { return reads_; }

 private:
  std::filesystem::path path_;
  int rank_;
  std::optional<files::FileLock> lock_;
  mutable std::atomic<int> files_made_{0};
  std::shared_ptr<BackgroundReads> reads_ = std::make_shared<BackgroundReads>();
};

}  // namespace fsdp::memory
