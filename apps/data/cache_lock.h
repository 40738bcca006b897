// One process at a time makes something in a cache.
#pragma once

#include <filesystem>
#include <optional>

#include "files/file_lock.h"

namespace data {

// Waits while another process holds the cache, which may take hours. On a file system without locks, a holder that died
// is an error that names the file to remove. Removes what processes that were killed have left half made: entries of
// the cache under their pending names, and nothing else.
class CacheLock {
 public:
  // Makes the folder where it is missing. Throws fsdp::Error.
  explicit CacheLock(const std::filesystem::path& cache);

 private:
  std::optional<fsdp::files::FileLock> lock_;
};

}  // namespace data
