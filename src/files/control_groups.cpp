#include "files/control_groups.h"

#include <charconv>
#include <fstream>
#include <sstream>
#include <system_error>

namespace fsdp::files {

namespace {

namespace fs = std::filesystem;

bool lists(const std::string& words, const std::string& wanted) {
  std::istringstream list(words);
  for (std::string word; std::getline(list, word, ',');) {
    if (word == wanted) return true;
  }
  return false;
}

// cgroups(7), /proc/<pid>/cgroup: "4:memory:/job", and "0::/job" in version 2.
std::optional<std::string> own_group(const fs::path& root, GroupVersion version, const std::string& controller) {
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool is_it = version == GroupVersion::Two ? controllers.empty() : lists(controllers, controller);
    if (is_it) return line.substr(second + 1);
  }
  return std::nullopt;
}

struct Mount {
  std::string group;  // the group seen at
  std::string point;
};

// proc(5), /proc/<pid>/mountinfo: number, parent, device, root, mount point, ..., "-", type, source, options.
std::optional<Mount> find_mount(const fs::path& root, GroupVersion version, const std::string& controller) {
  const char* file_system = version == GroupVersion::Two ? "cgroup2" : "cgroup";
  std::ifstream file(root / "proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    std::istringstream left(line.substr(0, dash)), right(line.substr(dash + 3));
    std::string number, parent, device, type, source, options;
    Mount mount;
    left >> number >> parent >> device >> mount.group >> mount.point;
    right >> type >> source >> options;
    if (type != file_system) continue;
    if (version == GroupVersion::Two || lists(options, controller)) return mount;
  }
  return std::nullopt;
}

}  // namespace

std::vector<fs::path> control_groups(const fs::path& root, GroupVersion version, const std::string& controller) {
  const std::optional<std::string> group = own_group(root, version, controller);
  const std::optional<Mount> mount = find_mount(root, version, controller);
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

std::optional<size_t> kernel_number(const fs::path& path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  size_t number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return number;
}

}  // namespace fsdp::files
