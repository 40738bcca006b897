// Room on the disk that this process's files take.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <string>

namespace fsdp::testing {

// Of the open files that once had a name in the folder.
inline int64_t bytes_on_disk(const std::filesystem::path& folder) {
  int64_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string path = std::filesystem::read_symlink(entry.path(), gone).string();
    struct stat status {};
    if (path.starts_with(folder.string()) && path.ends_with("(deleted)") && stat(entry.path().c_str(), &status) == 0)
      bytes += status.st_blocks * 512;
  }
  return bytes;
}

}  // namespace fsdp::testing
