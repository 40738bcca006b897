// A file system with little room, which this thread alone sees, and which ends with its process.
#pragma once

#include <sched.h>
#include <sys/mount.h>

#include <cstddef>
#include <filesystem>
#include <string>

namespace fsdp::testing {

// Mounted over `folder`. False where this process may not: that takes an administrator.
inline bool mount_small_disk(const std::filesystem::path& folder, size_t bytes) {
  const std::string size = "size=" + std::to_string(bytes);
  return unshare(CLONE_NEWNS) == 0 && mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount("fsdp-test", folder.c_str(), "tmpfs", 0, size.c_str()) == 0;
}

}  // namespace fsdp::testing
