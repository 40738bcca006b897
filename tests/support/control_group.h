// A limit on the memory of processes that counts shared memory and their page cache, too: a control group of Linux.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

namespace fsdp::testing {

// Of version 1 or 2; it ends with this object, when its processes have ended. Not every machine lets its users make
// control groups, and none of them is to be set up for that: `is_there`.
class ControlGroup {
 public:
  // With so many bytes for what its processes take once they are in it.
  explicit ControlGroup(size_t bytes) {
    static int count = 0;
    const std::string name = "fsdp-test-" + std::to_string(getpid()) + "-" + std::to_string(count++);
    for (const auto& [mount, limit] :
         {std::pair{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"}, std::pair{"/sys/fs/cgroup", "memory.max"}}) {
      const std::filesystem::path folder = std::filesystem::path(mount) / name;
      std::error_code refused;
      if (!std::filesystem::create_directory(folder, refused)) continue;
      if (std::filesystem::exists(folder / limit) && write(folder / limit, bytes)) {
        path_ = folder;
        return;
      }
      std::filesystem::remove(folder, refused);
    }
  }
  ~ControlGroup() {
    std::error_code gone;
    if (is_there()) std::filesystem::remove(path_, gone);
  }
  ControlGroup(ControlGroup&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  ControlGroup& operator=(ControlGroup&&) = delete;

  bool is_there() const { return !path_.empty(); }
  // From now on this process is in it.
  bool enter() const { return write(path_ / "cgroup.procs", static_cast<size_t>(getpid())); }

 private:
  static bool write(const std::filesystem::path& file, size_t number) {
    std::ofstream to(file);
    return static_cast<bool>(to << number << std::flush);
  }

  std::filesystem::path path_;
};

}  // namespace fsdp::testing
