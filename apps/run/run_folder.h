// Whether a run may have the folder that it was given.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "options/options.h"

namespace trainer {

// The checkpoint that --checkpoint or --resume names; empty: none.
std::string named_checkpoint(const Options& options);

// Whether the checkpoint lies in `run`, which exists.
bool is_of_run(const std::filesystem::path& checkpoint, const std::filesystem::path& run);

// Problems that would arise in RUN, and files that would be lost there: a sentence each. Nothing is written.
std::vector<std::string> run_folder_problems(const Options& options);

}  // namespace trainer
