#include "doctor/memory.h"

#include <fmt/format.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <fstream>

#include "console/units.h"
#include "files/memory_room.h"

namespace trainer {

namespace {

namespace fs = std::filesystem;

constexpr size_t kLittleMemory = size_t{2} << 30, kTooLittleMemory = size_t{256} << 20;

size_t total_memory(const fs::path& root) {
  std::ifstream file(root / "proc/meminfo");
  std::string name;
  size_t kibibytes = 0;
  file >> name >> kibibytes;  // MemTotal is the first
  return kibibytes << 10;
}

int64_t count_nodes(const fs::path& folder) {
  int64_t count = 0;
  std::error_code absent;
  for (const auto& entry : fs::directory_iterator(folder, absent)) {
    const std::string name = entry.path().filename();
    const bool is_node = name.starts_with("node") && name.find_first_not_of("0123456789", 4) == std::string::npos;
    if (is_node && name.size() > 4) ++count;
  }
  return std::max<int64_t>(count, 1);
}

// "always within_size [advise] never": the word in brackets.
std::string chosen_word(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  const size_t begin = line.find('['), end = line.find(']');
  return begin == std::string::npos || end == std::string::npos ? "" : line.substr(begin + 1, end - begin - 1);
}

Finding free_memory(const Memory& memory) {
  if (memory.total_bytes == 0) return {.subject = "memory", .text = "unknown: the kernel does not report it"};
  Finding finding{
      .subject = "memory",
      .text = fmt::format("{}, of which {} are free", short_bytes(memory.total_bytes), short_bytes(memory.free_bytes))};
  if (memory.limit_bytes > 0) {
    finding.text += fmt::format("; a control group allows {} ({})", short_bytes(memory.limit_bytes), memory.limit);
  }
  if (memory.free_bytes < kTooLittleMemory) {
    finding.verdict = Verdict::Problem;
    finding.text += ". That is too little for any model: end other programs, or give the job more memory";
  } else if (memory.free_bytes < kLittleMemory) {
    finding.verdict = Verdict::Note;
    finding.text += ". That is enough for small models; --dry-run shows the memory of a model";
  }
  return finding;
}

}  // namespace

Memory read_memory(const fs::path& root) {
  Memory memory;
  memory.total_bytes = total_memory(root);
  memory.free_bytes = std::min(fsdp::files::memory_room(root).bytes, memory.total_bytes);
  const fsdp::files::MemoryRoom limit = fsdp::files::memory_limit(root);
  if (limit.bytes < memory.total_bytes) {
    memory.limit_bytes = limit.bytes;
    memory.limit = limit.limit;
  }
  struct statvfs system {};
  if (statvfs((root / "dev/shm").c_str(), &system) == 0) {
    memory.shared_bytes = size_t{system.f_blocks} * system.f_frsize;
    memory.shared_free_bytes = size_t{system.f_bavail} * system.f_frsize;
  }
  memory.nodes = count_nodes(root / "sys/devices/system/node");
  memory.huge_pages = chosen_word(root / "sys/kernel/mm/transparent_hugepage/shmem_enabled");
  return memory;
}

std::vector<Finding> findings_of(const Memory& memory) {
  std::string shared = "there is none; ranks share memory without it";
  if (memory.shared_bytes > 0) {
    shared = fmt::format("{}, of which {} are free; ranks share memory without it", short_bytes(memory.shared_bytes),
                         short_bytes(memory.shared_free_bytes));
  }
  const std::string nodes =
      memory.nodes == 1 ? "one: all memory is equally near to all cores"
                        : fmt::format("{}: ranks that are bound to one each copy what lies on others", memory.nodes);
  std::vector<Finding> findings = {
      free_memory(memory), {.subject = "/dev/shm", .text = shared}, {.subject = "memory nodes", .text = nodes}};
  if (!memory.huge_pages.empty()) {
    const bool are_given = memory.huge_pages != "never" && memory.huge_pages != "deny";
    findings.push_back({.subject = "huge pages",
                        .text = fmt::format("{} shared memory (shmem_enabled: {})",
                                            are_given ? "the kernel has them for" : "not for", memory.huge_pages)});
  }
  return findings;
}

}  // namespace trainer
