#include "metrics/machine.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <thread>

#include "console/shell_words.h"

namespace trainer {

namespace {

std::string host_name() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

// The value of the first line "key : value" of a file under /proc.
std::string proc_value(const char* path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(':');
    if (!line.starts_with(key) || colon == std::string::npos) continue;
    const size_t begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

int64_t memory_bytes() {
  return static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<int64_t>(sysconf(_SC_PAGESIZE));
}

std::vector<std::string> command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  return words;
}

}  // namespace

int64_t usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : std::thread::hardware_concurrency();
}

std::string utc_time() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday,
                     parts.tm_hour, parts.tm_min, parts.tm_sec);
}

void add_machine(ProcessStart& start) {
  std::error_code ignored;
  start.time = utc_time();
  start.command = shell_words(command_line());
  start.folder = std::filesystem::current_path(ignored).string();
  start.host = host_name();
  start.process = getpid();
  start.processor = proc_value("/proc/cpuinfo", "model name");
  start.cores = usable_cores();
  start.total_memory = memory_bytes();
}

}  // namespace trainer
