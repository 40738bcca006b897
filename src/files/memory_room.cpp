#include "files/memory_room.h"

#include <algorithm>
#include <fstream>
#include <functional>
#include <limits>
#include <optional>
#include <sstream>
#include <vector>

#include "files/control_groups.h"

namespace fsdp::files {

namespace {

namespace fs = std::filesystem;

// The files of one version of control groups.
struct Names {
  GroupVersion version;
  std::vector<const char*> limits;
  const char* usage;
  const char* cache;  // in memory.stat: of this group and those in it
};

const Names kVersion1{GroupVersion::One, {"memory.limit_in_bytes"}, "memory.usage_in_bytes", "total_inactive_file"};
// More than `high` is no death, but a process that is slowed down for good.
const Names kVersion2{GroupVersion::Two, {"memory.max", "memory.high"}, "memory.current", "inactive_file"};

constexpr size_t kNoLimit = std::numeric_limits<size_t>::max();

// An entry in lines of a name and a number each.
std::optional<size_t> read_entry(const fs::path& path, const std::string& wanted) {
  std::ifstream report(path);
  std::string line, name;
  while (std::getline(report, line)) {
    std::istringstream fields(line);
    size_t number = 0;
    if (fields >> name >> number && name == wanted) return number;
  }
  return std::nullopt;
}

void lower(MemoryRoom& room, size_t bytes, const fs::path& limit) {
  if (bytes < room.bytes) room = {bytes, limit.string()};
}

// The memory of a group's processes, without reclaimable memory; none if unknown.
std::optional<size_t> used_by(const fs::path& folder, const Names& names) {
  const std::optional<size_t> usage = kernel_number(folder / names.usage);
  if (!usage) return std::nullopt;
  const size_t cache = read_entry(folder / "memory.stat", names.cache).value_or(0);
  return *usage - std::min(*usage, cache);
}

using EachLimit = std::function<void(const fs::path& folder, const Names& names, const fs::path& file, size_t bytes)>;

void for_each_limit(const fs::path& root, const EachLimit& act) {
  for (const Names* names : {&kVersion1, &kVersion2}) {
    for (const fs::path& folder : control_groups(root, names->version, "memory")) {
      for (const char* name : names->limits) {
        if (const auto limit = kernel_number(folder / name)) act(folder, *names, folder / name, *limit);
      }
    }
  }
}

}  // namespace

MemoryRoom memory_room(const fs::path& root) {
  MemoryRoom room{kNoLimit};
  const fs::path machine = root / "proc/meminfo";
  if (const auto kibibytes = read_entry(machine, "MemAvailable:")) lower(room, *kibibytes << 10, machine);
  for_each_limit(root, [&](const fs::path& folder, const Names& names, const fs::path& file, size_t limit) {
    if (const auto used = used_by(folder, names)) lower(room, limit - std::min(limit, *used), file);
  });
  return room;
}

MemoryRoom memory_limit(const fs::path& root) {
  MemoryRoom room{kNoLimit};
  for_each_limit(root,
                 [&](const fs::path&, const Names&, const fs::path& file, size_t limit) { lower(room, limit, file); });
  return room;
}

}  // namespace fsdp::files
