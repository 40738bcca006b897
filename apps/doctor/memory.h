// The memory of this machine, as far as training depends on it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "doctor/finding.h"

namespace trainer {

struct Memory {
  size_t total_bytes = 0;   // 0: unknown
  size_t free_bytes = 0;    // that this process and those beside it can have
  size_t limit_bytes = 0;   // by a control group; 0: there is no limit
  std::string limit = {};   // the file that says so
  size_t shared_bytes = 0;  // of /dev/shm; 0: there is none
  size_t shared_free_bytes = 0;
  int64_t nodes = 1;
  std::string huge_pages = {};  // the kernel's word for those of shared memory; empty: unknown
};

// `root` is where proc, sys, dev and the control groups are mounted.
Memory read_memory(const std::filesystem::path& root = "/");

std::vector<Finding> findings_of(const Memory& memory);

}  // namespace trainer
