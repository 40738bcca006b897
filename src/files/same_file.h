// Compares the file of a path with the file of a descriptor.
#pragma once

#include <sys/stat.h>

#include <filesystem>

namespace fsdp::files {

// True if the path leads to the open file. A symbolic link is not followed. The file may have been removed, moved or
// replaced. False, too, where that cannot be seen.
inline bool leads_to(const std::filesystem::path& path, int descriptor) {
  struct stat here {
  }, there{};
  return fstat(descriptor, &here) == 0 && lstat(path.c_str(), &there) == 0 && here.st_ino == there.st_ino &&
         here.st_dev == there.st_dev;
}

}  // namespace fsdp::files
