// A directory for one test's files.
//
// Made by the test's process and removed by it; the processes that `run_ranks` executes meanwhile see the same one.
#pragma once

#include <filesystem>

namespace fsdp::testing {

class ScratchDirectory {
 public:
  ScratchDirectory();
  ~ScratchDirectory();
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  bool owner_ = false;
};

}  // namespace fsdp::testing
