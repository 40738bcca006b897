#include "metrics/process_memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>

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

std::optional<int64_t> process_room() {
  // proc(5), statm: pages, the first number those of the address space, the sixth those of data and stack.
  int64_t all_pages = 0, other_pages = 0, data_pages = 0;
  std::ifstream pages("/proc/self/statm");
  pages >> all_pages;
  for (int i = 0; i < 4; ++i) pages >> other_pages;
  pages >> data_pages;
  std::optional<int64_t> room;
  const auto lower = [&](__rlimit_resource resource, int64_t used_pages) {
    rlimit limit{};
    if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
    const auto most = static_cast<int64_t>(std::min<rlim_t>(limit.rlim_cur, std::numeric_limits<int64_t>::max()));
    const int64_t left = std::max<int64_t>(0, most - used_pages * sysconf(_SC_PAGESIZE));
    room = std::min(left, room.value_or(left));
  };
  lower(RLIMIT_AS, all_pages);
  lower(RLIMIT_DATA, data_pages);
  return room;
}

}  // namespace trainer
