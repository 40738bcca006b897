#include "run/processor.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <sstream>

#include "files/control_groups.h"

namespace trainer {

namespace {

namespace fs = std::filesystem;
using fsdp::files::GroupVersion;

// Flags of x86-64, then of ARM: vectors, and products of bf16 numbers.
constexpr std::array kVectors = {"avx2", "fma", "avx512f", "asimd", "sve"};
constexpr std::array kBf16 = {"avx512_bf16", "avx_ne_convert", "amx_bf16", "bf16", "svebf16"};

// "value" of "key   : value"; empty for another key.
std::string value_of_key(const std::string& line, std::string_view key) {
  const size_t colon = line.find(':');
  if (!line.starts_with(key) || colon == std::string::npos) return "";
  const size_t begin = line.find_first_not_of(" \t", colon + 1);
  return begin == std::string::npos ? "" : line.substr(begin);
}

bool matters(const std::string& feature) {
  return std::ranges::find(kVectors, feature) != kVectors.end() || std::ranges::find(kBf16, feature) != kBf16.end();
}

bool has_one_of(const auto& names, const std::vector<std::string>& features) {
  return std::ranges::any_of(
      features, [&](const std::string& feature) { return std::ranges::find(names, feature) != names.end(); });
}

void read_features(const std::string& all, Processor& processor) {
  std::istringstream words(all);
  for (std::string word; words >> word;) {
    if (matters(word)) processor.features.push_back(word);
  }
}

void read_cpuinfo(const fs::path& path, Processor& processor) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("processor")) ++processor.cores;
    if (processor.model.empty()) processor.model = value_of_key(line, "model name");
    if (!processor.features.empty()) continue;
    for (const char* key : {"flags", "Features"}) read_features(value_of_key(line, key), processor);
  }
}

// Microseconds of each period: cpu.max of version 2 has both numbers, and "max" for none.
double quota_in(const fs::path& folder, GroupVersion version) {
  double period = 0;
  if (version == GroupVersion::Two) {
    const auto allowed = fsdp::files::kernel_number(folder / "cpu.max");
    std::string first;
    std::ifstream(folder / "cpu.max") >> first >> period;
    return allowed && period > 0 ? static_cast<double>(*allowed) / period : 0;
  }
  const auto allowed = fsdp::files::kernel_number(folder / "cpu.cfs_quota_us");
  std::ifstream(folder / "cpu.cfs_period_us") >> period;
  return allowed && period > 0 ? static_cast<double>(*allowed) / period : 0;
}

double least_quota(const fs::path& root) {
  double least = 0;
  for (const GroupVersion version : {GroupVersion::One, GroupVersion::Two}) {
    for (const fs::path& folder : fsdp::files::control_groups(root, version, "cpu")) {
      const double quota = quota_in(folder, version);
      if (quota > 0 && (least == 0 || quota < least)) least = quota;
    }
  }
  return least;
}

}  // namespace

Processor read_processor(const fs::path& root) {
  Processor processor;
  read_cpuinfo(root / "proc/cpuinfo", processor);
  cpu_set_t set;
  CPU_ZERO(&set);
  processor.usable = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : processor.cores;
  processor.quota = least_quota(root);
  return processor;
}

double Processor::available() const {
  return quota > 0 ? std::min(quota, static_cast<double>(usable)) : static_cast<double>(usable);
}

bool Processor::has_vectors() const { return has_one_of(kVectors, features); }

bool Processor::multiplies_bf16() const { return has_one_of(kBf16, features); }

bool Processor::is_slow_in_bf16() const {
  return !features.empty() && !multiplies_bf16() && !has_one_of(std::array{"avx512f"}, features);
}

}  // namespace trainer
