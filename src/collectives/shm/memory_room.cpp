#include "collectives/shm/memory_room.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <system_error>
#include <vector>

namespace fsdp::collectives::shm {

namespace {

namespace fs = std::filesystem;

// The files of one version of control groups.
struct Names {
  const char* file_system;
  std::vector<const char*> limits;
  const char* usage;
  const char* cache;  // in memory.stat: of this group and those in it
};

const Names kVersion1{"cgroup", {"memory.limit_in_bytes"}, "memory.usage_in_bytes", "total_inactive_file"};
// More than `high` is no death, but a process that is slowed down for good.
const Names kVersion2{"cgroup2", {"memory.max", "memory.high"}, "memory.current", "inactive_file"};

// A file that says "max" sets no limit; nor does one that is not there.
std::optional<size_t> read_number(const fs::path& path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  size_t number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return number;
}

// Of lines that are a name and a number each.
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

bool lists(const std::string& words, const std::string& wanted) {
  std::istringstream list(words);
  for (std::string word; std::getline(list, word, ',');) {
    if (word == wanted) return true;
  }
  return false;
}

// cgroups(7), /proc/<pid>/cgroup: "4:memory:/job", and "0::/job" in version 2.
std::optional<std::string> own_group(const fs::path& root, const Names& names) {
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool is_it = &names == &kVersion2 ? controllers.empty() : lists(controllers, "memory");
    if (is_it) return line.substr(second + 1);
  }
  return std::nullopt;
}

struct Mount {
  std::string group;  // the one that is seen at
  std::string point;
};

// proc(5), /proc/<pid>/mountinfo: number, parent, device, root, mount point, ..., "-", type, source, options.
std::optional<Mount> find_mount(const fs::path& root, const Names& names) {
  std::ifstream file(root / "proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    std::istringstream left(line.substr(0, dash)), right(line.substr(dash + 3));
    std::string number, parent, device, type, source, options;
    Mount mount;
    left >> number >> parent >> device >> mount.group >> mount.point;
    right >> type >> source >> options;
    if (type != names.file_system) continue;
    if (&names == &kVersion2 || lists(options, "memory")) return mount;
  }
  return std::nullopt;
}

// The folders of the process's own group and of those that it lies in, as far as they are mounted. In a container the
// group may be named by a path that is not seen there; then it is what is mounted.
std::vector<fs::path> folders_of(const fs::path& root, const Names& names) {
  const std::optional<std::string> group = own_group(root, names);
  const std::optional<Mount> mount = find_mount(root, names);
  if (!group || !mount) return {};
  const fs::path top = root / fs::path(mount->point).relative_path();
  const fs::path below = fs::path(*group).lexically_relative(mount->group);
  std::vector<fs::path> folders{top};
  if (below.empty() || *below.begin() == "..") return folders;
  for (const fs::path& part : below) {
    if (part != ".") folders.push_back(folders.back() / part);
  }
  return folders;
}

void lower(MemoryRoom& room, size_t bytes, const fs::path& limit) {
  if (bytes < room.bytes) room = {bytes, limit.string()};
}

void lower_to_group(MemoryRoom& room, const fs::path& folder, const Names& names) {
  const std::optional<size_t> usage = read_number(folder / names.usage);
  if (!usage) return;
  const size_t cache = read_entry(folder / "memory.stat", names.cache).value_or(0);
  const size_t used = *usage - std::min(*usage, cache);
  for (const char* name : names.limits) {
    const std::optional<size_t> limit = read_number(folder / name);
    if (limit) lower(room, *limit - std::min(*limit, used), folder / name);
  }
}

}  // namespace

MemoryRoom memory_room(const fs::path& root) {
  MemoryRoom room{std::numeric_limits<size_t>::max()};
  const fs::path machine = root / "proc/meminfo";
  if (const auto kibibytes = read_entry(machine, "MemAvailable:")) lower(room, *kibibytes << 10, machine);
  for (const Names* names : {&kVersion1, &kVersion2}) {
    for (const fs::path& folder : folders_of(root, *names)) lower_to_group(room, folder, *names);
  }
  return room;
}

}  // namespace fsdp::collectives::shm
