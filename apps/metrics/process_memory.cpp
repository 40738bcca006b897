#include "metrics/process_memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

namespace trainer {

ProcessMemory process_memory() {
  // proc(5), statm: pages, the second number those in memory, the third those of them that are shared.
  int64_t all_pages = 0, resident_pages = 0, shared_pages = 0;
  std::ifstream("/proc/self/statm") >> all_pages >> resident_pages >> shared_pages;
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const int64_t resident = resident_pages * sysconf(_SC_PAGESIZE);
  // The kernel brings the peak up to date only now and then: getrusage(2) counts in units of 1024 bytes.
  return {.resident_bytes = resident,
          .shared_bytes = shared_pages * sysconf(_SC_PAGESIZE),
          .peak_bytes = std::max<int64_t>(resident, usage.ru_maxrss * 1024)};
}

}  // namespace trainer
