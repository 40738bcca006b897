#include "world/this_host.h"

#include <limits.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <system_error>

namespace fsdp::world {

std::string machine() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  std::error_code absent;
  return boot + std::filesystem::read_symlink("/proc/self/ns/net", absent).string();
}

int64_t host_fingerprint() { return static_cast<int64_t>(std::hash<std::string>()(machine())); }

std::string host_name() {
  char name[HOST_NAME_MAX + 1] = {};
  return gethostname(name, HOST_NAME_MAX) == 0 && name[0] != '\0' ? name : "?";
}

}  // namespace fsdp::world
