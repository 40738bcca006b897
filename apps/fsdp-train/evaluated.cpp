#include "fsdp-train/evaluated.h"

#include <fmt/format.h>
#include <fsdp/error.h>

#include <filesystem>

#include "run/checkpoint_folder.h"
#include "run/checkpoints.h"
#include "run/collect_problems.h"
#include "run/problems.h"
#include "tokenizers/tokenizer.h"

namespace trainer {

namespace fs = std::filesystem;

namespace {

std::string newest_of(const std::string& run) {
  const std::vector<fs::path> checkpoints = checkpoints_of(run);
  return checkpoints.empty() ? "" : checkpoints.front().string();
}

void choose_checkpoint(Options& options) {
  std::error_code ignored;
  if (!options.checkpoint.empty()) {
    const bool is_run = !fs::exists(fs::path(options.checkpoint) / "manifest.json", ignored);
    const std::string newest = is_run ? newest_of(options.checkpoint) : "";
    if (!newest.empty()) options.checkpoint = newest;
  } else if (options.model_options.init_from.empty()) {
    options.checkpoint = newest_of(options.run);
    if (!options.checkpoint.empty()) return;
    throw fsdp::Error(fmt::format(
        "--eval-only has no weights: there is no checkpoint in run folder '{}'. Name one with --checkpoint, a run with "
        "--run, or weights from elsewhere with --init-from.",
        options.run));
  }
}

// The one that was trained for the run, whose text may be gone.
void choose_tokenizer(Options& options) {
  const fs::path run = (fs::path(options.checkpoint) / "").parent_path().parent_path();
  const bool is_trained = options.tokenizer.starts_with("train:");
  if (is_trained && tokenizers::has_tokenizer(run)) options.tokenizer = run.empty() ? "." : run.string();
}

}  // namespace

std::vector<std::string> choose_evaluated(Options& options) {
  options.resume = "never";  // whatever its configuration says
  std::vector<std::string> problems;
  collect_problems(problems, [&] { choose_checkpoint(options); });
  std::error_code ignored;
  // That it is none is said where inputs are checked.
  if (!fs::exists(fs::path(options.checkpoint) / "manifest.json", ignored)) return problems;
  options.strategy = "full-shard";  // on any number of ranks, whatever the run was trained with
  options.shard_group_size = 0;
  choose_tokenizer(options);
  return problems;
}

}  // namespace trainer
