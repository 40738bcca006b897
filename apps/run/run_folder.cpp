#include "run/run_folder.h"

#include <fmt/format.h>
#include <fsdp/error.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "data/sources.h"
#include "files/reading.h"
#include "run/checkpoints.h"
#include "run/fresh_folder.h"
#include "run/run_files.h"

namespace trainer {

namespace fs = std::filesystem;

namespace {

std::string run_problem(const std::string& run) {
  std::error_code ignored;
  fs::path nearest = fs::absolute(run, ignored);
  while (!fs::exists(fs::symlink_status(nearest, ignored)) && nearest.has_relative_path()) {
    nearest = nearest.parent_path();
  }
  if (!fs::is_directory(nearest, ignored)) {
    return fmt::format("--run: folder '{}' cannot be made: '{}' is {}.", run, nearest.string(),
                       fs::exists(nearest, ignored) ? "a file" : "a symbolic link that leads nowhere");
  }
  if (access(nearest.c_str(), W_OK | X_OK) == 0) return "";
  return fmt::format("--run: folder '{}' cannot be written: {} in '{}'.", run, std::strerror(errno), nearest.string());
}

// A run that begins anew would write over what another one has left.
std::string earlier_run_problem(const RunOptions& options) try {
  if (options.resume != "never" || !options.checkpoint.empty()) return "";
  const std::vector<fs::path> checkpoints = checkpoints_of(options.run);
  if (checkpoints.empty()) return "";
  return fmt::format(
      "--resume is never, and run folder '{}' has checkpoints up to {}. Name another --run, or go on with "
      "--resume auto.",
      options.run, checkpoints.front().filename().string());
} catch (const fsdp::Error& error) {
  return error.what();
}

// A run's record replaces all that came after the checkpoint in its folder: the checkpoint has to be this run's own.
std::string record_problem(const RunOptions& options) {
  const std::string checkpoint = named_checkpoint(options);
  if (checkpoint.empty() || is_of_run(checkpoint, options.run)) return "";
  const fs::path record = fs::path(options.run) / "metrics.jsonl";
  std::error_code error;
  if (fs::file_size(record, error) == 0 || error) return "";
  return fmt::format(
      "'{}' is the record of another run, and checkpoint '{}' is not of it. Name another --run; or go on with the run "
      "in that folder, without naming a checkpoint.",
      record.string(), checkpoint);
}

// A run that begins anew and was killed may have set the older record aside, and not begun its own.
bool has_record(const fs::path& run) {
  constexpr std::string_view kAside = "metrics.jsonl.before-";
  std::error_code ignored;
  if (fs::exists(fs::symlink_status(run / "metrics.jsonl", ignored))) return true;
  const fs::directory_iterator files(run, ignored);
  return std::any_of(begin(files), end(files), [&](const fs::directory_entry& file) {
    return file.path().filename().string().starts_with(kAside);
  });
}

// The files that a run writes beside its record would replace other files, for example a model's.
std::string foreign_files_problem(const std::string& run) {
  const auto has = [&](const char* name) {
    std::error_code ignored;
    return fs::exists(fs::symlink_status(fs::path(run) / name, ignored));
  };
  const auto foreign = std::find_if(kRunFiles.begin(), kRunFiles.end(), has);
  if (foreign == kRunFiles.end() || has_record(run)) return "";
  return fmt::format(
      "folder '{}' holds a {} and no metrics.jsonl: it is no run's, and a run would write over that file. Name another "
      "--run.",
      run, *foreign);
}

// Where every file is text to learn from, what a run writes would be, too, and the next one would have other data.
std::string text_folder_problem(const RunOptions& options) try {
  std::error_code ignored;
  const fs::path run = fs::weakly_canonical(options.run, ignored);
  std::vector<std::string> texts = {options.validation};
  for (const data::Source& source : data::sources_in(options.text)) texts.push_back(source.path);
  for (const std::string& text : texts) {
    if (!fs::is_directory(text, ignored)) continue;
    const fs::path folder = fs::weakly_canonical(text, ignored);
    if (std::mismatch(folder.begin(), folder.end(), run.begin(), run.end()).first != folder.end()) continue;
    return fmt::format(
        "run folder '{}' lies in '{}', where every file is text: what this run writes would be among it. Name a --run "
        "outside of it.",
        options.run, text);
  }
  return "";
} catch (const fsdp::Error&) {
  return "";  // weights that are wrong are said where the texts are opened
}

}  // namespace

// RUN/lock is written and removed: it has to be one that a process has left, or is holding (files/file_lock.h).
std::string foreign_lock_problem(const std::string& run) try {
  constexpr std::string_view kBegin = "process ";
  const fs::path path = fs::path(run) / "lock";
  const std::string name = fmt::format("'{}'", path.string());
  std::error_code ignored;
  const fs::file_status there = fs::symlink_status(path, ignored);
  if (!fs::exists(there)) return "";
  if (fs::is_symlink(there)) return fmt::format("{} is a symbolic link, and no lock of a run. Remove it.", name);
  const fsdp::files::OpenFile lock = fsdp::files::open_regular(path, name);
  std::string begin(std::min(kBegin.size(), static_cast<size_t>(lock.bytes)), '\0');
  fsdp::files::read_exactly(lock, 0, begin.data(), begin.size(), name);
  if (kBegin.starts_with(begin)) return "";
  return fmt::format("{} is no lock of a run, and a run would write over it. Name another --run.", name);
} catch (const fsdp::Error& error) {
  return error.what();
}

std::string foreign_folder_problem(const std::string& run) {
  const std::string files = foreign_files_problem(run);
  return files.empty() ? foreign_lock_problem(run) : files;
}

bool is_of_run(const fs::path& checkpoint, const fs::path& run) {
  std::error_code ignored;
  return fs::equivalent((fs::absolute(checkpoint, ignored) / "").parent_path().parent_path(), run, ignored);
}

std::string named_checkpoint(const RunOptions& options) {
  if (!options.checkpoint.empty()) return options.checkpoint;
  return options.resume == "never" || options.resume == "auto" ? "" : options.resume;
}

std::vector<std::string> run_folder_problems(const RunOptions& given) {
  RunOptions options = given;
  if (options.run.empty()) options.run = next_run_folder();
  std::vector<std::string> problems = {run_problem(options.run),          earlier_run_problem(options),
                                       record_problem(options),           foreign_files_problem(options.run),
                                       foreign_lock_problem(options.run), text_folder_problem(options)};
  std::erase(problems, "");
  return problems;
}

}  // namespace trainer
