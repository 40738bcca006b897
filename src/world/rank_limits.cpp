#include "world/rank_limits.h"

#include <sys/resource.h>

#include <algorithm>
#include <cstdint>

#include "base/error.h"
#include "files/control_groups.h"
#include "files/memory_room.h"

namespace fsdp::world {

namespace {

// The supervisor's: two pipes and a handle.
constexpr uint64_t kFilesOfARank = 3;
// Its copy of the page tables, and the counters that it shares.
constexpr uint64_t kBytesOfARank = uint64_t{1} << 20;
// A rank has the memory of every other mapped, far from the rest: a page of page tables.
constexpr uint64_t kBytesOfAPair = uint64_t{4} << 10;

uint64_t limit_of_processes() {
  uint64_t limit = UINT64_MAX;
  for (const char* file : {"/proc/sys/kernel/pid_max", "/proc/sys/kernel/threads-max"})
    if (const auto number = files::kernel_number(file)) limit = std::min<uint64_t>(limit, *number);
  for (const auto version : {files::GroupVersion::One, files::GroupVersion::Two}) {
    for (const auto& folder : files::control_groups("/", version, "pids"))
      if (const auto number = files::kernel_number(folder / "pids.max")) limit = std::min<uint64_t>(limit, *number);
  }
  return limit;
}

}  // namespace

std::string problem_of_ranks(int ranks) {
  const auto count = static_cast<uint64_t>(ranks);
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur / kFilesOfARank < count)
    return fmt::format(
        "{} ranks need {} open files here, and the limit is {}. Use fewer ranks, or raise it (ulimit -n).", ranks,
        count * kFilesOfARank, files.rlim_cur);
  if (const uint64_t limit = limit_of_processes(); limit < count)
    return fmt::format("{} ranks are {} processes, and this machine allows {}. Use fewer ranks.", ranks, ranks, limit);
  const uint64_t bytes = count * kBytesOfARank + count * count * kBytesOfAPair;
  const files::MemoryRoom room = files::memory_room();
  if (room.bytes < bytes)
    return fmt::format(
        "{} ranks need at least {} MiB of memory before they train, and {} MiB are left ({}). Use fewer ranks.", ranks,
        bytes >> 20, room.bytes >> 20, room.limit);
  return {};
}

}  // namespace fsdp::world
