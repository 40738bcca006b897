#include "inputs.h"

#include <fmt/format.h>
#include <fsdp/error.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

namespace trainer {

namespace fs = std::filesystem;

namespace {

std::string checkpoint_problem(const std::string& checkpoint) {
  std::error_code ignored;
  if (checkpoint.empty() || fs::is_regular_file(fs::path(checkpoint) / "manifest.json", ignored)) return "";
  if (!fs::exists(checkpoint, ignored)) return fmt::format("checkpoint '{}' does not exist.", checkpoint);
  return fmt::format("checkpoint '{}' has no manifest.json: it is no checkpoint. Name a folder such as RUN/step-300.",
                     checkpoint);
}

std::string run_problem(const std::string& run) {
  std::error_code ignored;
  fs::path nearest = fs::absolute(run, ignored);
  while (!fs::exists(nearest, ignored) && nearest.has_relative_path()) nearest = nearest.parent_path();
  if (!fs::is_directory(nearest, ignored)) {
    return fmt::format("run folder '{}' cannot be made: '{}' is a file.", run, nearest.string());
  }
  if (access(nearest.c_str(), W_OK | X_OK) == 0) return "";
  return fmt::format("run folder '{}' cannot be written: no permission in '{}'.", run, nearest.string());
}

}  // namespace

Inputs read_inputs(const Options& options) {
  Inputs inputs;
  try {
    // What the command line lacks or has wrong has been said already.
    const int64_t context = std::max<int64_t>(options.model.context, 1);
    if (!options.text.empty()) inputs.corpus = data::open_text({.data = options.text, .context = context});
  } catch (const fsdp::Error& error) {
    inputs.problems.push_back(error.what());
  }
  for (const std::string& problem : {checkpoint_problem(options.checkpoint), run_problem(options.run)}) {
    if (!problem.empty()) inputs.problems.push_back(problem);
  }
  return inputs;
}

}  // namespace trainer
