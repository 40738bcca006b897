#include "fsdp-train/evaluated.h"

#include <fmt/format.h>
#include <fsdp/error.h>

#include <filesystem>

#include "options/sample_choice.h"
#include "run/checkpoints.h"
#include "run/collect_problems.h"
#include "run/problems.h"
#include "tokenizers/tokenizer.h"

namespace trainer {

namespace fs = std::filesystem;

namespace {

bool has_checkpoints(const std::string& run) { return !checkpoints_and_remains_of(run).empty(); }

NewestCheckpoint chosen_checkpoint(const RunOptions& options) {
  const std::string& weights = options.model_options.init_from;
  const bool begins_with_checkpoint = sample_form(weights) == SampleForm::Checkpoint;
  const std::string& named = options.checkpoint.empty() && begins_with_checkpoint ? weights : options.checkpoint;
  std::error_code ignored;
  if (!named.empty()) {
    const bool is_run = !fs::exists(fs::path(named) / "manifest.json", ignored) && has_checkpoints(named);
    return is_run ? newest_checkpoint(named) : NewestCheckpoint{.newest_first = {named}};
  }
  if (!weights.empty()) return {};
  if (has_checkpoints(options.run)) return newest_checkpoint(options.run);
  throw fsdp::Error(fmt::format(
      "--eval-only has no weights: there is no checkpoint in run folder '{}'. Name one with --checkpoint, a run with "
      "--run, or weights from elsewhere with --init-from.",
      options.run));
}

// The tokenizer that was trained for the run, whose text may be gone.
void choose_tokenizer(RunOptions& options) {
  const fs::path run = (fs::path(options.checkpoint) / "").parent_path().parent_path();
  const bool is_trained = options.tokenizer.starts_with("train:");
  if (is_trained && tokenizers::has_tokenizer(run)) options.tokenizer = run.empty() ? "." : run.string();
}

}  // namespace

Evaluated choose_evaluated(RunOptions& options) {
  options.resume = "never";             // whatever its configuration says
  options.offload_activations = false;  // no backward needs them
  Evaluated evaluated;
  collect_problems(evaluated.problems, [&] { evaluated.checkpoint = chosen_checkpoint(options); });
  if (!evaluated.checkpoint.newest_first.empty()) {
    options.checkpoint = evaluated.checkpoint.newest_first.front().string();
  }
  std::error_code ignored;
  // That it is none is said where inputs are checked.
  if (!fs::exists(fs::path(options.checkpoint) / "manifest.json", ignored)) return evaluated;
  options.strategy = "full-shard";  // on any number of ranks, whatever the run was trained with
  options.shard_group_size = 0;
  choose_tokenizer(options);
  return evaluated;
}

}  // namespace trainer
