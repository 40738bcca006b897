// Checks that a run may use its folder.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "options/options.h"

namespace trainer {

// The checkpoint that --checkpoint or --resume names; empty: none.
std::string named_checkpoint(const RunOptions& options);

// True if the checkpoint lies in `run`, which exists.
bool is_of_run(const std::filesystem::path& checkpoint, const std::filesystem::path& run);

// Why RUN cannot be a run's folder: it has a file that a run would overwrite and no record of a run, or its lock is not
// a run's. Empty: nothing of that.
std::string foreign_folder_problem(const std::string& run);
// The part about the lock.
std::string foreign_lock_problem(const std::string& run);

// Problems that would arise in RUN, and files that would be lost there: a sentence each. Nothing is written.
std::vector<std::string> run_folder_problems(const RunOptions& options);

}  // namespace trainer
