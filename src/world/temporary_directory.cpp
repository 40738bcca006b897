#include "world/temporary_directory.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/error.h"

namespace fsdp::world {

std::filesystem::path temporary_root() {
  const char* root = std::getenv("TMPDIR");
  return root && *root ? root : "/tmp";
}

TemporaryDirectory::TemporaryDirectory() : owner_(getpid()) {
  std::string pattern = (temporary_root() / "fsdp-XXXXXX").string();
  FSDP_CHECK(mkdtemp(pattern.data()),
             "the ranks need a directory to meet in, and none can be made in {}: {}. Set "
             "TMPDIR to a directory that can be written to.",
             temporary_root().string(), std::strerror(errno));
  path_ = pattern;
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  if (getpid() == owner_) std::filesystem::remove_all(path_, ignored);
}

std::filesystem::path shared_directory(const std::string& name) {
  std::filesystem::path path = temporary_root() / name;
  FSDP_CHECK(mkdir(path.c_str(), 0700) == 0 || errno == EEXIST,
             "the directory {} cannot be made: {}. Set TMPDIR to a "
             "directory that can be written to.",
             path.string(), std::strerror(errno));
  struct stat found {};
  bool ours = lstat(path.c_str(), &found) == 0 && S_ISDIR(found.st_mode) && found.st_uid == geteuid() &&
              (found.st_mode & 077) == 0;
  FSDP_CHECK(ours,
             "{} is not a directory of this user's that is closed to others (mode 0700). Remove it, or set TMPDIR "
             "to another directory.",
             path.string());
  return path;
}

}  // namespace fsdp::world
