// Limits of the kernel, the shell and the folder of fsdp-train's start.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "console/terminal.h"
#include "doctor/finding.h"

namespace trainer {

inline constexpr uint64_t kUnlimited = UINT64_MAX;

struct Limits {
  std::string kernel = {};  // "6.1.0-18-amd64"
  uint64_t open_files = kUnlimited;
  uint64_t locked_bytes = kUnlimited;   // memory that may not be swapped out
  uint64_t file_bytes = kUnlimited;     // of one file
  uint64_t address_bytes = kUnlimited;  // of a process
  std::string threads = {};             // OMP_NUM_THREADS; empty: it is not set
  std::string locale = {};              // by its name; empty: none is set
  Terminal terminal = {};
  int columns = 80;              // of the terminal
  bool is_writable = true;       // the folder that fsdp-train was started in is
  uint64_t free_disk_bytes = 0;  // in it
};

Limits read_limits(const std::filesystem::path& folder);

// `gpus`: whether there are GPUs, for which memory is locked.
std::vector<Finding> findings_of(const Limits& limits, bool gpus);

}  // namespace trainer
