// Whether a run may have the folder that it was given.
#pragma once

#include <string>
#include <vector>

#include "options/options.h"

namespace trainer {

// The checkpoint that --checkpoint or --resume names; empty: none.
std::string named_checkpoint(const Options& options);

// Problems that would arise in RUN, and files that would be lost there: a sentence each. Nothing is written.
std::vector<std::string> run_folder_problems(const Options& options);

}  // namespace trainer
