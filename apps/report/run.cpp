#include "report/run.h"

#include <fmt/format.h>
#include <fsdp/error.h>

#include <algorithm>
#include <cmath>

#include "files/json.h"
#include "files/reading.h"

namespace trainer {

namespace fs = std::filesystem;
using fsdp::files::OrderedJson;

namespace {

std::string first_bytes(const fs::path& path, size_t most) {
  const std::string name = fmt::format("'{}'", path.string());
  const fsdp::files::OpenFile file = fsdp::files::open_regular(path, name);
  std::string bytes(static_cast<size_t>(std::min(file.bytes, static_cast<int64_t>(most))), '\0');
  fsdp::files::read_exactly(file, 0, bytes.data(), bytes.size(), name);
  return bytes;
}

using ConfigurationRows = std::vector<std::pair<std::string, std::string>>;

void flatten(const std::string& name, const OrderedJson& value, ConfigurationRows& rows) {
  if (value.is_object() && !value.empty()) {
    for (const auto& [key, member] : value.items()) flatten(name.empty() ? key : name + "." + key, member, rows);
  } else if (!name.empty()) {
    rows.emplace_back(name, value.is_string() ? value.get<std::string>()
                                              : value.dump(-1, ' ', false, OrderedJson::error_handler_t::replace));
  }
}

ConfigurationRows read_configuration(const fs::path& path, std::vector<std::string>& problems) try {
  constexpr int64_t kMostBytes = 1 << 17;
  constexpr size_t kMostRows = 1000;
  const std::string name = fmt::format("'{}'", path.string());
  const OrderedJson json = fsdp::files::read_ordered_json(path, name, kMostBytes);
  if (!json.is_object()) throw fsdp::Error(fmt::format("{} is no JSON object.", name));
  ConfigurationRows rows;
  flatten("", json, rows);
  if (rows.size() > kMostRows) {
    problems.push_back(fmt::format("{} has {} values; the first {} are shown.", name, rows.size(), kMostRows));
    rows.resize(kMostRows);
  }
  return rows;
} catch (const fsdp::Error& error) {
  problems.push_back(fmt::format("{} The configuration is left out.", error.what()));
  return {};
}

// By the numbers in them: sample-20.txt before sample-100.txt.
bool comes_before(const std::string& a, const std::string& b) {
  const auto number_of = [](const std::string& name) {
    const size_t first = name.find_first_of("0123456789");
    const size_t end = first == std::string::npos ? first : name.find_first_not_of("0123456789", first);
    std::string digits = first == std::string::npos ? "" : name.substr(first, end - first);
    digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size()));
    return std::make_pair(digits.size(), digits);
  };
  // The one without a number is that of the end.
  const bool a_has = a.find_first_of("0123456789") != std::string::npos;
  const bool b_has = b.find_first_of("0123456789") != std::string::npos;
  if (a_has != b_has) return a_has;
  return std::make_pair(number_of(a), a) < std::make_pair(number_of(b), b);
}

std::vector<Sample> read_samples(const fs::path& folder, std::vector<std::string>& problems) {
  std::vector<std::string> names;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("sample") && name.ends_with(".txt") && entry.is_regular_file(error)) names.push_back(name);
  }
  std::sort(names.begin(), names.end(), comes_before);
  if (names.size() > kSamples) names.erase(names.begin(), names.end() - kSamples);
  std::vector<Sample> samples;
  for (const std::string& name : names) {
    try {
      samples.push_back({name, first_bytes(folder / name, kSampleBytes)});
    } catch (const fsdp::Error& failed) {
      problems.push_back(failed.what());
    }
  }
  return samples;
}

std::string name_of(const fs::path& folder) {
  std::error_code error;
  fs::path path = fs::absolute(folder, error).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();  // it ends with a slash
  return path.filename().string();
}

}  // namespace

RunFolder read_run(const fs::path& folder) {
  RunFolder run{.name = name_of(folder), .metrics = read_metrics(folder / "metrics.jsonl")};
  run.configuration = read_configuration(folder / "config.json", run.metrics.problems);
  run.samples = read_samples(folder, run.metrics.problems);
  return run;
}

std::vector<double> elapsed_seconds(const RunMetrics& metrics) {
  std::vector<double> elapsed;
  double before = 0, last = 0;
  for (const double seconds : metrics.column("seconds")) {
    if (seconds < last) before += last;
    if (std::isfinite(seconds)) last = seconds;
    elapsed.push_back(before + last);
  }
  return elapsed;
}

}  // namespace trainer
