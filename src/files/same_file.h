// Whether a path and a descriptor are of one file.
#pragma once

#include <sys/stat.h>

#include <filesystem>

namespace fsdp::files {

// Whether the path, not followed where it is a symbolic link, leads to the open file: somebody may have removed the
// file, moved it away or put another in its place. False, too, where that cannot be seen.
inline bool leads_to(const std::filesystem::path& path, int descriptor) {
  struct stat here {
  }, there{};
  return fstat(descriptor, &here) == 0 && lstat(path.c_str(), &there) == 0 && here.st_ino == there.st_ino &&
         here.st_dev == there.st_dev;
}

}  // namespace fsdp::files
