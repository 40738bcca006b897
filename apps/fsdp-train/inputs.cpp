#include "inputs.h"

#include <fmt/format.h>
#include <fsdp/error.h>
#include <unistd.h>

#include <filesystem>

#include "data/text.h"
#include "resolve.h"

namespace trainer {

namespace fs = std::filesystem;

namespace {

std::string checkpoint_problem(const std::string& checkpoint) {
  std::error_code ignored;
  if (fs::is_regular_file(fs::path(checkpoint) / "manifest.json", ignored)) return "";
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

std::vector<std::string> checkpoint_problems(const Options& options) {
  std::vector<std::string> problems;
  const bool resumes_from_folder = options.resume != "never" && options.resume != "auto";
  for (const std::string& folder : {options.checkpoint, resumes_from_folder ? options.resume : std::string()}) {
    const std::string problem = folder.empty() ? "" : checkpoint_problem(folder);
    if (!problem.empty()) problems.push_back(problem);
  }
  return problems;
}

Inputs read_inputs(const Options& options) {
  Inputs inputs;
  try {
    // What the command line lacks or has wrong has been said already.
    if (!options.text.empty()) {
      inputs.text = read_text(options.text);
      const TextSplit split = split_text(inputs.text, options.model.context);
      inputs.windows = windows_in(static_cast<int64_t>(split.training.size()), options.model.context);
    }
  } catch (const fsdp::Error& error) {
    inputs.problems.push_back(error.what());
  }
  for (const std::string& problem : checkpoint_problems(options)) inputs.problems.push_back(problem);
  const std::string problem = options.dry_run ? "" : run_problem(options.run);
  if (!problem.empty()) inputs.problems.push_back(problem);
  return inputs;
}

}  // namespace trainer
