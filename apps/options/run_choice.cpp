#include "options/run_choice.h"

#include <fmt/format.h>

#include <filesystem>

#include "options/rank_range.h"

namespace trainer {

namespace fs = std::filesystem;

namespace {

bool has_file(const fs::path& folder, const char* name) {
  std::error_code ignored;
  return fs::is_regular_file(folder / name, ignored);
}

// Without a slash at its end.
fs::path folder_of(const std::string& path) { return (fs::path(path) / "").parent_path(); }

bool is_run(const fs::path& folder) {
  return !has_file(folder, "manifest.json") && (has_file(folder, "config.toml") || has_file(folder, "metrics.jsonl"));
}

}  // namespace

std::string configuration_of_run(const std::string& path) {
  if (path.empty()) return "";
  const fs::path folder = folder_of(path);
  const fs::path run = is_run(folder) ? folder : folder.parent_path();
  return has_file(run, "config.toml") ? (run / "config.toml").string() : "";
}

std::string path_meant(const std::string& path) {
  std::error_code ignored;
  const bool is_run_or_checkpoint = is_run(folder_of(path)) || has_file(path, "manifest.json");
  if (path.ends_with(".toml")) return "--config " + path;
  if (is_run_or_checkpoint) return "--resume " + path;
  return fs::exists(path, ignored) ? "--text " + path : "";
}

void settle_resume(const Rows& in_flags, CommandLine& line) {
  RunOptions& options = line.options;
  const bool names_run = in_flags.contains(row_of("--run"));
  const bool asks = in_flags.contains(row_of("--resume")) && !in_flags.contains(row_of("--checkpoint"));
  if (options.resume == "auto" && options.run.empty() && asks) {
    line.problems.emplace_back(
        "--resume auto goes on with the run in --run, which is not given. Name a run: --resume run-1.");
  }
  if (options.resume == "auto" || options.resume == "never" || options.resume.empty()) return;
  const fs::path folder = folder_of(options.resume);
  if (!is_run(folder)) {
    const bool is_of_run = has_file(folder, "manifest.json") && is_run(folder.parent_path());
    if (is_of_run && !names_run && options.config == configuration_of_run(options.resume)) {
      options.run = folder.parent_path().empty() ? "." : folder.parent_path().string();
    }
    return;
  }
  std::error_code ignored;
  if (names_run && !fs::equivalent(options.run, folder, ignored)) {
    line.problems.push_back(
        fmt::format("--resume names run '{}', and --run another folder, '{}'. Leave --run out, or name a checkpoint to "
                    "go on from in another folder: --checkpoint {} --run {}.",
                    folder.string(), options.run, (folder / "step-N").string(), options.run));
    return;
  }
  options.run = folder.string();
  options.resume = "auto";
}

void settle_step(const Rows& in_flags, const RunOptions& before, RunOptions& options) {
  const auto given = [&](const char* flag) { return in_flags.contains(row_of(flag)); };
  const bool is_own = !given("--config") && !before.config.empty() && given("--resume");
  if (is_own && !given("--tensor-parts") && before.parts() > 1) {
    options.tensor_parts = before.parts();
    options.chosen.flags.insert("--tensor-parts");
  }
  if (!is_own || given("--micro-batches") || given("--tokens-per-step")) return;
  if (before.target_tokens_per_step) return;  // micro-batches follow already
  const auto range = rank_range_in(before.elastic);
  options.sequences_per_step = (range ? range->most : before.data_ranks()) * before.micro_batches * before.batch;
}

}  // namespace trainer
