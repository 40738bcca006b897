// How much counts as memory of this process, as a whole and of a mapping.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>

namespace fsdp::testing {

// By a key of /proc/self/status, for example "VmRSS".
inline int64_t process_bytes(const std::string& key) {
  std::ifstream status("/proc/self/status");
  int64_t kibibytes = 0;
  for (std::string word; status >> word && word != key + ":";) continue;
  status >> kibibytes;
  return kibibytes * 1024;
}

// Of the mappings that /proc/self/smaps describes and `is_meant` accepts, by their first byte and their line.
template <typename Meant>
size_t resident_bytes_where(Meant is_meant) {
  std::ifstream report("/proc/self/smaps");
  bool inside = false;
  size_t resident = 0;
  for (std::string line; std::getline(report, line);) {
    unsigned long from = 0, to = 0;
    size_t kibibytes = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &from, &to) == 2) inside = is_meant(from, line);
    if (inside && std::sscanf(line.c_str(), "Rss: %zu kB", &kibibytes) == 1) resident += kibibytes * 1024;
  }
  return resident;
}

// Of mappings that begin within these bytes.
inline size_t resident_bytes(const void* begin, size_t bytes) {
  const auto first = reinterpret_cast<uintptr_t>(begin);
  return resident_bytes_where([=](uintptr_t from, const auto&) { return first <= from && from < first + bytes; });
}

// Of mappings of files in the folder, those without a name included.
inline size_t resident_bytes_of_files_in(const std::string& folder) {
  return resident_bytes_where([&](uintptr_t, const auto& line) { return line.find(' ' + folder) != line.npos; });
}

}  // namespace fsdp::testing
