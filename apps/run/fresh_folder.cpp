#include "run/fresh_folder.h"

#include <fmt/format.h>
#include <fsdp/error.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string_view>

namespace trainer {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kPrefix = "run-";

// 7 for run-7; 0 for other names.
int64_t number_of_run(const std::string& name) {
  if (!name.starts_with(kPrefix)) return 0;
  int64_t number = 0;
  const auto [end, error] = std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), number);
  constexpr int64_t kHighest = 1'000'000'000;
  const bool is_ours = error == std::errc() && name == fmt::format("{}{}", kPrefix, number) && number <= kHighest;
  return is_ours ? number : 0;
}

int64_t highest_number() {
  int64_t highest = 0;
  std::error_code error;
  for (fs::directory_iterator entry(".", error); !error && entry != fs::directory_iterator(); entry.increment(error)) {
    highest = std::max(highest, number_of_run(entry->path().filename().string()));
  }
  return highest;
}

std::string name_of_run(int64_t number) { return fmt::format("{}{}", kPrefix, number); }

}  // namespace

std::string next_run_folder() { return name_of_run(highest_number() + 1); }

std::string make_run_folder() {
  constexpr int kEverybody = 0777;  // as far as the umask allows
  for (int64_t number = highest_number() + 1;; ++number) {
    const std::string name = name_of_run(number);
    if (mkdir(name.c_str(), kEverybody) == 0) return name;
    if (errno == EEXIST) continue;
    throw fsdp::Error(
        fmt::format("run folder '{}' cannot be made: {}. Name one with --run.", name, std::strerror(errno)));
  }
}

EmptyFolderGuard::~EmptyFolderGuard() {
  if (folder_.empty()) return;
  rmdir((folder_ + "/offload").c_str());  // as --offload makes it
  rmdir(folder_.c_str());                 // which leaves a folder that holds anything
}

}  // namespace trainer
