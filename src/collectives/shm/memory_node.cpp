#include "collectives/shm/memory_node.h"

#include <sched.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <system_error>

namespace fsdp::collectives::shm {

namespace {

// A node's processors, as in "0-3,8".
cpu_set_t read_processors(const std::filesystem::path& list) {
  cpu_set_t processors;
  CPU_ZERO(&processors);
  std::ifstream file(list);
  for (std::string range; std::getline(file, range, ',');) {
    int first = 0, last = 0;
    const int fields = std::sscanf(range.c_str(), "%d-%d", &first, &last);
    if (fields == 1) last = first;
    for (int processor = first; fields > 0 && processor <= last; ++processor) CPU_SET(processor, &processors);
  }
  return processors;
}

bool lies_within(const cpu_set_t& some, const cpu_set_t& all) {
  cpu_set_t both;
  CPU_AND(&both, &some, &all);
  return CPU_EQUAL(&both, &some);
}

}  // namespace

int memory_node(const std::filesystem::path& nodes) {
  cpu_set_t own;
  std::error_code absent;
  if (sched_getaffinity(0, sizeof own, &own) == 0) {
    for (const auto& entry : std::filesystem::directory_iterator(nodes, absent)) {
      int node = 0;
      const bool is_node = std::sscanf(entry.path().filename().c_str(), "node%d", &node) == 1;
      if (is_node && lies_within(own, read_processors(entry.path() / "cpulist"))) return node;
    }
  }
  unsigned processor = 0, node = 0;
  getcpu(&processor, &node);
  return static_cast<int>(node);
}

}  // namespace fsdp::collectives::shm
