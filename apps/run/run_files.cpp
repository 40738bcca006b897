#include "run/run_files.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "files/durable_file.h"

namespace trainer {

namespace fs = std::filesystem;

namespace {

bool is_any_file(std::string_view) { return true; }

bool is_run_file(std::string_view name) {
  const bool is_sample = name.starts_with("sample-") && name.ends_with(".txt");
  return is_sample || std::ranges::find(kRunFiles, name) != kRunFiles.end();
}

void remove_unfinished(const fs::path& folder, bool (*are_meant)(std::string_view name)) {
  std::vector<fs::path> unfinished;
  std::error_code error;
  fs::directory_iterator entry(folder, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    const std::string target = fsdp::files::target_of_unfinished(entry->path().filename().string());
    std::error_code ignored;
    const bool is_file = fs::is_regular_file(entry->symlink_status(ignored));
    if (!target.empty() && is_file && are_meant(target)) unfinished.push_back(entry->path());
  }
  for (const fs::path& file : unfinished) fs::remove(file, error);
}

}  // namespace

void remove_unfinished_files(const fs::path& run) {
  remove_unfinished(run, is_run_file);
  for (const char* folder : {"model", "traces"}) remove_unfinished(run / folder, is_any_file);
}

}  // namespace trainer
