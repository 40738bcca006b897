// Directories that only this user can read, for what the ranks of one host share.
#pragma once

#include <filesystem>
#include <string>

namespace fsdp::world {

// $TMPDIR, or /tmp.
std::filesystem::path temporary_root();

// A new directory of mode 0700, removed with all that is in it by the destructor of the process that made it.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int owner_;  // a forked rank does not remove it
};

// The directory of mode 0700 that all ranks of one host call by this name; made if it is not there. Throws Error if it
// belongs to somebody else, or others can write to it.
std::filesystem::path shared_directory(const std::string& name);

}  // namespace fsdp::world
